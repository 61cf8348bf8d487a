# docker build -f images/router.Dockerfile -t terrace-router .
# The same files as images/router.files, which a test compares.
FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends musl-tools && rustup target add x86_64-unknown-linux-musl
WORKDIR /src
COPY . .
RUN cargo build --release --target x86_64-unknown-linux-musl -p terrace-router && strip target/x86_64-unknown-linux-musl/release/terrace-router

FROM scratch
COPY --from=build /src/target/x86_64-unknown-linux-musl/release/terrace-router /bin/terrace-router
ENV PATH=/bin
USER 65532:65532
ENTRYPOINT ["/bin/terrace-router"]
