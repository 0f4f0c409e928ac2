# The evenkeel command line, which is also the sample controller: docker build -t evenkeel:latest .
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p evenkeel-cli

FROM debian:bookworm-slim
USER 65532:65532
COPY --from=build /src/target/release/evenkeel /usr/local/bin/evenkeel
ENTRYPOINT ["/usr/local/bin/evenkeel"]
