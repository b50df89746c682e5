# toxiproxy, built from its Go module. The published image of toxiproxy serves as well: name it in
# ANABRANCH_TOXIPROXY_IMAGE.
ARG GO_IMAGE=golang:1.25
FROM ${GO_IMAGE} AS build
ARG TOXIPROXY_VERSION=v2.12.0
ENV CGO_ENABLED=0 GOBIN=/out
RUN go install "github.com/Shopify/toxiproxy/v2/cmd/server@${TOXIPROXY_VERSION}" \
    && go install "github.com/Shopify/toxiproxy/v2/cmd/cli@${TOXIPROXY_VERSION}"

FROM scratch
COPY --from=build /out/server /toxiproxy
COPY --from=build /out/cli /toxiproxy-cli
USER 10001:10001
EXPOSE 8474
ENTRYPOINT ["/toxiproxy"]
CMD ["-host=0.0.0.0"]
