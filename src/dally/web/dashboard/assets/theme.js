// Before anything is drawn: the theme that was chosen here before, if one was.
const chosen = localStorage.getItem("dally-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
