# docker build .                      builds everything, from Go's official image to a scratch image.
# docker build --target prebuilt .    packs what `make image-files` put into dist/image: where no registry can be
#                                     reached, or where the binary is already tested.
# Both end in the same image; `make image` picks one.
ARG GO_IMAGE=golang:1.26@sha256:3c3e25a4da13fd0478eed2df1eb35a0e667094a7124d3993a6a1d30f71c17e79

# What both have in common. Nothing here needs a registry, and neither does the next stage.
FROM scratch AS base
ARG VERSION=dev
LABEL org.opencontainers.image.title="vmgroup" \
      org.opencontainers.image.description="Answers Metacontroller's hooks for VmGroup: groups of VMs in vSphere" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
USER 65532:65532
# The hooks where manifests/ serves them, health and metrics; of itself the server listens on loopback alone.
EXPOSE 8443 8081
ENTRYPOINT ["/vmgroup"]
CMD ["serve"]

FROM base AS prebuilt
COPY dist/image/ /

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN make image-files VERSION="${VERSION}"

FROM base
COPY --from=build /src/dist/image/ /
