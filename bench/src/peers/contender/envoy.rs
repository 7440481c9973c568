//! Envoy with its cache filter over `simple_http_cache`, which holds all in memory and forgets nothing.

use super::{CERTIFICATE, Launch, Place, words};

pub const NOTE: &str = "Envoy's cache is its simple_http_cache, in memory and without a bound.";

pub fn launch(place: &Place) -> Launch {
    let (port, origin) = (place.port, place.origin);
    let text = format!(
        "static_resources:
  listeners:
  - name: clients
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    tcp_backlog_size: 4096
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            # It ends at 1.2 otherwise.
            tls_params: {{ tls_maximum_protocol_version: TLSv1_3 }}
            tls_certificates:
            - certificate_chain: {{ filename: /run/{CERTIFICATE} }}
              private_key: {{ filename: /run/{CERTIFICATE} }}
      filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: clients
          # Work that only serves logs and traces.
          generate_request_id: false
          common_http_protocol_options: {{ idle_timeout: 300s }}
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              - match: {{ prefix: \"/\" }}
                route: {{ cluster: origin, timeout: 300s }}
          http_filters:
          - name: envoy.filters.http.cache
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.cache.v3.CacheConfig
              typed_config:
                \"@type\": type.googleapis.com/envoy.extensions.http.cache.simple_http_cache.v3.SimpleHttpCacheConfig
          - name: envoy.filters.http.router
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
              # Counts for each response that nobody reads.
              dynamic_stats: false
  clusters:
  - name: origin
    type: STATIC
    connect_timeout: 10s
    load_assignment:
      cluster_name: origin
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {origin} }} }} }}
"
    );
    let files = [("envoy.yaml", text)].into_iter().chain(place.certificate_file());
    // One worker, and no process that may take over from it.
    let command = "/usr/bin/envoy -c /run/envoy.yaml --concurrency 1 --disable-hot-restart --log-level error";
    Launch { files: files.collect(), command: words(command), ..Launch::default() }
}
