//! Varnish: memory by malloc; disk by its `file` storage, one mapped file, which does not outlive the process.

use super::{Launch, Place, Tier, words};

pub fn launch(place: &Place) -> Launch {
    let origin = place.origin;
    let text = format!(
        "vcl 4.1;
backend origin {{
    .host = \"127.0.0.1\";
    .port = \"{origin}\";
    .first_byte_timeout = 300s;
}}
# Nothing here depends on cookies: straight to the cache.
sub vcl_recv {{
    return (hash);
}}
"
    );
    let storage = match place.tier {
        Tier::Memory | Tier::Tls => format!("malloc,{}m", place.memory_mib()),
        Tier::Disk => format!("file,/run/store,{}m", place.disk_mib()),
    };
    // The log that others may read lies in memory, and is small: nobody reads it. One pool of threads for one core,
    // and as many of them as requests may wait for the origin; they outlive a pause. Bodies are not packed.
    let command = format!(
        "/usr/sbin/varnishd -F -j none -n /dev/shm/varnish -a 127.0.0.1:{} -f /run/cache.vcl -s {storage} \
         -p thread_pools=1 -p thread_pool_min=100 -p thread_pool_max=9000 -p thread_pool_timeout=600 \
         -p timeout_idle=300 -p vsl_space=4m -p http_gzip_support=off -p listen_depth=4096",
        place.port
    );
    Launch { files: vec![("cache.vcl", text)], command: words(&command), ..Launch::default() }
}
