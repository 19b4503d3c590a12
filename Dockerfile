# The container image of a release, for linux/amd64 and linux/arm64. `make image` builds the programs, writes this image as an OCI layout without a
# container engine, and checks it; the release workflow pushes that layout. A container engine builds the same image from the programs of
# `make image`.
#
# The programs are static, contain certificates of public CAs, write no files and read no time zones. /etc/hosts and /etc/resolv.conf are the
# kubelet's.

FROM scratch
ARG TARGETARCH
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="machine-controller-manager-provider-kubevirt" \
      org.opencontainers.image.source="https://github.com/gardener/machine-controller-manager-provider-kubevirt" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED"
COPY --chmod=0555 bin/linux-$TARGETARCH/machine-controller bin/linux-$TARGETARCH/mcm-kubevirt /
WORKDIR /
# A number, so that the kubelet knows that it is not root.
USER 65532:65532
ENTRYPOINT ["/machine-controller"]
