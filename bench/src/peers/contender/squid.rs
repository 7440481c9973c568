//! Squid: in memory; with aufs, a file an object and threads that do the I/O; with rock, slots of one file and a
//! process that does the I/O.

use super::{Launch, Place, Rebuilt, words};

pub fn memory(place: &Place) -> Launch {
    launch(place, None, 0)
}

pub fn aufs(place: &Place) -> Launch {
    // About a hundred files in a directory.
    let first = (place.objects / 256 / 100).clamp(16, 64);
    let store = format!("cache_dir aufs /run/store {} {first} 256", place.disk_mib());
    launch(place, Some(store), 1)
}

pub fn rock(place: &Place) -> Launch {
    // An object with its head in one slot. Three slots for each object: a key has one place, and two keys that share it
    // displace each other; but each slot takes a hundred bytes of memory.
    let slot = (place.object_bytes + 1024).next_power_of_two().clamp(4096, 16384);
    let mebibytes = ((place.objects * slot * 3) >> 20).max(1024);
    let store = format!("cache_dir rock /run/store {mebibytes} slot-size={slot} max-size=1048576");
    // The worker says it has rebuilt nothing, the disk process that it has rebuilt the store.
    launch(place, Some(store), 2)
}

fn launch(place: &Place, store: Option<String>, rebuilds: usize) -> Launch {
    let (port, origin) = (place.port, place.origin);
    let memory = place.memory_mib().max(1);
    let disk = store.as_deref().unwrap_or("# Memory only.");
    let text = format!(
        "workers 1
http_port 127.0.0.1:{port} accel defaultsite=127.0.0.1:{origin} no-vhost
cache_peer 127.0.0.1 parent {origin} 0 no-query no-digest no-netdb-exchange originserver name=origin
never_direct allow all
http_access allow all
# No log of requests or of the store.
access_log none
cache_store_log none
cache_log /run/cache.log
logfile_rotate 0
cache_mem {memory} MB
maximum_object_size_in_memory 1 MB
maximum_object_size 1 MB
{disk}
# One worker: nobody to share memory with.
memory_cache_shared off
# Work that only serves statistics, neighbours or names.
client_db off
digest_generation off
icp_port 0
pinger_enable off
netdb_filename none
half_closed_clients off
# Idle connections stay.
client_idle_pconn_timeout 300 seconds
server_idle_pconn_timeout 300 seconds
request_timeout 300 seconds
cache_effective_user proxy
# After a kill its old number may be another process's.
pid_filename none
coredump_dir /run
visible_hostname squid
shutdown_lifetime 1 second
"
    );
    let before = store.map(|_| words("/usr/sbin/squid --foreground -z -f /run/squid.conf"));
    Launch {
        files: vec![("squid.conf", text)],
        folders: vec!["store", "squid"],
        before,
        command: words("/usr/sbin/squid --foreground -f /run/squid.conf"),
        rebuilt: (rebuilds > 0).then_some(Rebuilt {
            log: "cache.log",
            line: "Finished rebuilding storage",
            times: rebuilds,
        }),
        ..Launch::default()
    }
}
