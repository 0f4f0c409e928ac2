# The evenkeel command line, which is also the sample controller: docker build -t evenkeel:latest .
# Exact versions; docs/releasing.md has the command that adds the digests.
FROM rust:1.95.0-bookworm AS build
WORKDIR /src
COPY . .
ENV RUSTFLAGS="--remap-path-prefix=/src=/evenkeel --remap-path-prefix=/usr/local/cargo=/cargo"
RUN cargo build --profile measured --locked -p evenkeel-cli

FROM debian:bookworm-20251229-slim
USER 65532:65532
COPY --from=build /src/target/measured/evenkeel /usr/local/bin/evenkeel
ENTRYPOINT ["/usr/local/bin/evenkeel"]
