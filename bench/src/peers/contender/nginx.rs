//! nginx: one file an object; what is hot lies in the kernel's page cache and goes out by sendfile.

use super::{CERTIFICATE, Launch, Place, Tier, words};

pub fn launch(place: &Place) -> Launch {
    let (port, origin, disk) = (place.port, place.origin, place.disk_mib());
    // Room for all keys: a megabyte holds about 8,000.
    let keys = 16 + place.objects / 7000;
    // The worker must not wait for the disk; where all is in memory, handing over to a thread would only cost.
    let aio = if place.tier == Tier::Disk { "aio threads;" } else { "" };
    let (tls, certificate) = match place.tier {
        Tier::Tls => (
            " ssl http2",
            format!(
                "ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate /run/{CERTIFICATE};
        ssl_certificate_key /run/{CERTIFICATE};"
            ),
        ),
        _ => ("", String::new()),
    };
    let text = format!(
        "daemon off;
user proxy;
worker_processes 1;
pid /run/nginx.pid;
error_log /run/error.log crit;
events {{
    worker_connections 60000;
    multi_accept on;
}}
http {{
    access_log off;
    sendfile on;
    {aio}
    # Off: it makes 64 KB hits wait 40 ms for an acknowledgement.
    tcp_nopush off;
    tcp_nodelay on;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    reset_timedout_connection on;
    server_tokens off;
    # Hot files stay open.
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 300s;
    open_file_cache_min_uses 1;
    client_body_temp_path /run/tmp/1;
    proxy_temp_path /run/tmp/2;
    fastcgi_temp_path /run/tmp/3;
    uwsgi_temp_path /run/tmp/4;
    scgi_temp_path /run/tmp/5;
    # Written where they stay, not copied there.
    proxy_cache_path /run/cache levels=1:2 keys_zone=objects:{keys}m max_size={disk}m inactive=1d use_temp_path=off;
    upstream origin {{
        server 127.0.0.1:{origin};
        keepalive 1024;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port}{tls} backlog=4096;
        {certificate}
        location / {{
            proxy_pass http://origin;
            # Keep-alive to the origin.
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_cache objects;
            proxy_read_timeout 300s;
            # A response of the usual sizes fits.
            proxy_buffers 8 16k;
        }}
    }}
}}
"
    );
    Launch {
        files: [("nginx.conf", text)].into_iter().chain(place.certificate_file()).collect(),
        folders: vec!["cache", "tmp"],
        command: words("/usr/sbin/nginx -p /run -e /run/error.log -c /run/nginx.conf"),
        ..Launch::default()
    }
}
