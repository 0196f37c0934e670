# docker build -t dally . && docker run --rm -v "$PWD:/work" dally simulate --trace jobs.csv --cluster 4x16x8
# The daemon: docker build -t dally --target daemon --build-arg EXTRAS=live,kubernetes,postgresql .
FROM python:3.11-slim AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY setup.py pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN PIP_CONSTRAINT=constraints.txt pip wheel --no-deps --wheel-dir /dist .

# The compiler stays behind.
FROM python:3.11-slim AS command
ARG EXTRAS=report
COPY --from=build /dist /dist
COPY constraints.txt /dist/
RUN wheel=$(ls /dist/dally-*.whl) && pip install --no-cache-dir -c /dist/constraints.txt "$wheel[$EXTRAS]" && rm -r /dist
ENTRYPOINT ["dally"]

FROM command AS daemon
USER 10001:10001

FROM command
WORKDIR /work
