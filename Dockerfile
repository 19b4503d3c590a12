# The container image of a release, as .github/workflows/release.yaml builds and pushes it, for linux/amd64 and linux/arm64. `make image`
# builds the same programs into the same image on an empty base, without a container engine; a test holds the two together
# (image/dockerfile_test.go). The base below is used, and so proven, by the release workflow alone.
#
# The programs are static, write no files and read no time zones. Of the base they use one thing: its certificates of public authorities, with
# which the server of a kubeconfig without certificate-authority-data is verified. /etc/hosts and /etc/resolv.conf are the kubelet's.

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
