# docker build -f images/agent-cuda.Dockerfile -t terrace-agent-cuda .
# The same files as images/agent-cuda.files, which a test compares.
FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip
WORKDIR /src
COPY . .
RUN scripts/gpu.sh --program && strip target/images/gpu/terrace-agent && images/cuda-parts.sh

FROM scratch
COPY --from=build /src/target/images/gpu/terrace-agent /bin/terrace-agent
COPY --from=build /lib64/ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2
COPY --from=build /lib/x86_64-linux-gnu/libc.so.6 /lib/x86_64-linux-gnu/libc.so.6
COPY --from=build /lib/x86_64-linux-gnu/libm.so.6 /lib/x86_64-linux-gnu/libm.so.6
COPY --from=build /lib/x86_64-linux-gnu/libgcc_s.so.1 /lib/x86_64-linux-gnu/libgcc_s.so.1
COPY --from=build /lib/x86_64-linux-gnu/libdl.so.2 /lib/x86_64-linux-gnu/libdl.so.2
COPY --from=build /lib/x86_64-linux-gnu/libpthread.so.0 /lib/x86_64-linux-gnu/libpthread.so.0
COPY --from=build /lib/x86_64-linux-gnu/librt.so.1 /lib/x86_64-linux-gnu/librt.so.1
COPY --from=build /src/target/images/cuda/libnvrtc.so.12 /lib/x86_64-linux-gnu/libnvrtc.so.12
COPY --from=build /src/target/images/cuda/libnvrtc-builtins.so.12.8 /lib/x86_64-linux-gnu/libnvrtc-builtins.so.12.8
COPY --from=build /src/target/images/cuda/include /usr/local/cuda/include
ENV PATH=/bin
USER 65532:65532
ENTRYPOINT ["/bin/terrace-agent"]
