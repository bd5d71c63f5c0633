# syntax=docker/dockerfile:1
#
#   docker build -t hare .
#   docker run --rm --network host hare
#
# That server listens on the loopback addresses of the machine and asks for no keys.
# One that other machines reach has TLS and keys, as in deploy/kubernetes/hare.yaml:
#
#   docker run --rm -v hare:/var/lib/hare hare key create --data-dir /var/lib/hare --tenant vision --role solve
#   docker run -d -p 8443:8443 -v hare:/var/lib/hare -v "$PWD/tls:/tls:ro" \
#     --health-cmd 'hare healthcheck --ca /tls/tls.crt https://127.0.0.1:8443/healthz' hare \
#     serve --listen 0.0.0.0:8443 --data-dir /var/lib/hare --tls-cert /tls/tls.crt --tls-key /tls/tls.key
#
# The certificate must be valid for 127.0.0.1 too, and user 65532 must be able to read the key.
#
# Both bases can be replaced by a Debian 12 of your own, the first with Go in
# its PATH. With buildah add --format docker: OCI images have no health check.
ARG BUILD_BASE=docker.io/library/golang:1.26-bookworm
ARG RUN_BASE=docker.io/library/debian:bookworm-slim

FROM ${BUILD_BASE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
    gcc libc6-dev make python3 python3-pip ca-certificates \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# HiGHS and the modules change seldom: layers of their own.
COPY scripts/ scripts/
COPY go.mod go.sum ./
RUN scripts/get-highs.sh && go mod download
COPY . .
RUN make build && go run ./internal/licences bin linux-$(go env GOARCH) \
    "$(sed -n 's/^const version = "\(.*\)"$/\1/p' cmd/hare/version.go)" .highs

FROM ${RUN_BASE}
# libhighs needs libstdc++6 and zlib1g, which apt and dpkg need too: both are
# in every Debian base. The loader proves it when the image is built.
COPY --from=build /src/bin/ /opt/hare/
COPY --from=build /src/LICENSE /src/NOTICE /opt/hare/
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
RUN ln -s /opt/hare/hare /usr/local/bin/hare && hare --help >/dev/null \
 && install -d -o 65532 -g 65532 -m 700 /var/lib/hare
USER 65532:65532
WORKDIR /tmp
EXPOSE 8443
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["/opt/hare/hare", "healthcheck", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["/opt/hare/hare"]
CMD ["serve", "--listen", "127.0.0.1:8080"]
