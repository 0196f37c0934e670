// Colours that stay apart, also for eyes that do not tell red from green.

// Hue, then lightnesses: yellow is no colour when it is dark, nor blue when it is pale.
const HUES = [
  [27, 0.52, 0.7], [48, 0.64, 0.8], [75, 0.74, 0.86], [116, 0.7, 0.85], [148, 0.48, 0.66, 0.82], [185, 0.5, 0.7, 0.86],
  [232, 0.5, 0.66, 0.82], [265, 0.42, 0.58, 0.74], [300, 0.46, 0.62, 0.78], [345, 0.5, 0.66, 0.82],
];
const CHROMA = { light: 0.15, dark: 0.145 };
const LIFT = { light: 0, dark: 0.06 };
const KEPT = 50000;  // names; a page may stay open for months
const APART = 0.13;  // in OKLab; less is hard to tell beside each other

// What the two common kinds of colour blindness make of linear red, green and blue (Machado and others, 2009).
const EYES = [
  [1, 0, 0, 0, 1, 0, 0, 0, 1],
  [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
];

const clip = (part) => Math.min(1, Math.max(0, part));

function linearOf(lightness, chroma, hue) {
  const [a, b] = [chroma * Math.cos(hue * Math.PI / 180), chroma * Math.sin(hue * Math.PI / 180)];
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map(clip);
}

function labOf([r, g, b]) {
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

const seenBy = (eye, [r, g, b]) => [0, 3, 6].map((row) => clip(eye[row] * r + eye[row + 1] * g + eye[row + 2] * b));
const hexOf = (linear) => `#${linear.map((part) => {
  const coded = part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055;
  return Math.round(255 * coded).toString(16).padStart(2, "0");
}).join("")}`;

// How unlike two colours are to the eye that tells them apart worst.
function apart(one, two) {
  return Math.min(...EYES.map((eye) => {
    const [a, b] = [labOf(seenBy(eye, one)), labOf(seenBy(eye, two))];
    return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
  }));
}

// Colours of a theme and how far each is from each for the eye that tells them apart worst.
export class Palette {
  constructor(theme) {
    const chroma = (lightness) => CHROMA[theme] * (lightness > 0.75 ? 0.72 : 1);
    const one = (lightness, hue) => linearOf(lightness + LIFT[theme], chroma(lightness), hue);
    const linear = HUES.flatMap(([hue, ...lightnesses]) => lightnesses.map((lightness) => one(lightness, hue)));
    this.colours = linear.map(hexOf);
    this.distance = linear.map((here) => Float32Array.from(linear, (there) => apart(here, there)));
  }
}

// From little to much: lightness runs one way, so that it reads without hues as well.
export function ramp(theme, steps) {
  return Array.from({ length: steps }, (_, at) => {
    const share = at / (steps - 1);
    if (theme === "dark") return hexOf(linearOf(0.47 + 0.41 * share, 0.09 + 0.06 * share, 255 + 195 * share));
    return hexOf(linearOf(0.86 - 0.44 * share, 0.06 + 0.11 * share, 225 + 165 * share));
  });
}

// A few colours for an order of few steps, such as tiers: as with a ramp, lightness runs one way.
export function steps(theme, count) {
  const [first, last] = theme === "dark" ? [0.5, 0.84] : [0.78, 0.44];
  const hues = [165, 245, 310, 20, 60, 100];
  const lightness = (at) => first + (last - first) * at / Math.max(1, count - 1);
  return Array.from({ length: count }, (_, at) => hexOf(linearOf(lightness(at), 0.13, hues[at % 6])));
}

function hash(text) {
  let value = 2166136261;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 16777619);
  return (value ^ (value >>> 15)) >>> 0;
}

// Gives names colours: each its own by its name, unless a neighbour's is too like it or fewer others have another one.
// A name keeps its colour.
export class Assigner {
  constructor(palette) {
    this.palette = palette;
    this.given = new Map();
  }

  // The number of a name's colour; `neighbours` are numbers to keep away from, `others` the names that may be there.
  of(name, neighbours, others = () => []) {
    const known = this.given.get(name);
    if (known !== undefined) return known;
    const found = this.#choose(hash(name), neighbours(), this.#uses(others()));
    this.given.set(name, found);
    if (this.given.size > KEPT) this.given.delete(this.given.keys().next().value);
    return found;
  }

  // How many of these names have each colour.
  #uses(names) {
    const found = this.palette.colours.map(() => 0);
    for (const name of names) if (this.given.has(name)) found[this.given.get(name)] += 1;
    return found;
  }

  #choose(start, taken, uses) {
    const { colours, distance } = this.palette;
    let [best, most] = [start % colours.length, -1];
    let [fits, fewest] = [null, Infinity];
    for (let tried = 0; tried < colours.length; tried += 1) {
      const colour = (start + 11 * tried) % colours.length;
      const apart = taken.reduce((least, other) => Math.min(least, distance[colour][other]), 1);
      if (apart >= APART && uses[colour] < fewest) [fits, fewest] = [colour, uses[colour]];
      if (apart > most) [best, most] = [colour, apart];
    }
    return fits ?? best;
  }
}
