# The container image of a release, as .github/workflows/release.yaml builds and pushes it, for linux/amd64 and linux/arm64. `make image`
# builds the same programs into the same image on an empty base, without a container engine; image/dockerfile_test.go compares the two. Only the
# release workflow uses, and so tests, the base below.
#
# The programs are static, write no files and read no time zones. They use only the base's certificates of public CAs, to verify the server of a
# kubeconfig without certificate-authority-data. /etc/hosts and /etc/resolv.conf are the kubelet's.

FROM --platform=$BUILDPLATFORM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
ARG REVISION
# The flags of the compiler and the linker are in the Makefile, and nowhere else.
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION COMMIT=$REVISION

FROM gcr.io/distroless/static-debian12:nonroot
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="machine-controller-manager-provider-kubevirt" \
      org.opencontainers.image.source="https://github.com/gardener/machine-controller-manager-provider-kubevirt" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED"
COPY --from=build --chmod=0555 /src/bin/machine-controller /src/bin/mcm-kubevirt /
WORKDIR /
# A number, so that the kubelet knows that it is not root.
USER 65532:65532
ENTRYPOINT ["/machine-controller"]
