# docker build -f images/operator.Dockerfile -t terrace-operator .
# The same files as images/operator.files, which a test compares.
FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends musl-tools && rustup target add x86_64-unknown-linux-musl
WORKDIR /src
COPY . .
RUN cargo build --release --target x86_64-unknown-linux-musl -p terrace-operator && strip target/x86_64-unknown-linux-musl/release/terrace-operator

FROM scratch
COPY --from=build /src/target/x86_64-unknown-linux-musl/release/terrace-operator /bin/terrace-operator
ENV PATH=/bin
USER 65532:65532
ENTRYPOINT ["/bin/terrace-operator"]
