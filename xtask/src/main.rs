//! Chores of this repository that need more than one shell line.

mod acme;
mod bench;
mod conformance;
mod deb;
mod deps;
mod fuzz;
mod h2spec;
mod layers;
mod libcachesim;
mod rules;
mod sim;
mod tools;
mod verify;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask deps [--advisories]   licences, sources and withdrawn versions of dependencies, and which part of a
                                         crate uses which
       cargo xtask deb [--program FILE] [--smoke|--verify]
                                         a Debian package of a release build, or of FILE, in target/debian; --smoke looks at one,
                                         --verify installs, uses, upgrades, removes and purges one on a Debian of its own, as root
       cargo xtask fuzz [--seconds N] [TARGET...]
                                         look for inputs that break a parser, 20 seconds each by default
       cargo xtask sim [--for 1h] [--seed N] [--threads N]
                                         random histories of the store on a simulated disk that fails, a minute by default; a
                                         seed alone is that one history
       cargo xtask bench first-light [--quick] [--out FOLDER] [--dir FOLDER] [--only PART,…]
                                         build in release and measure; --help after it tells more
       cargo xtask bench peers [--quick] [--only SCENARIO,…] [--peers NAME,…] [--out FOLDER] [--dir FOLDER]
                                         the same beside squid, nginx, varnish, trafficserver, haproxy; over TLS
                                         and HTTP/2 beside nginx, haproxy, envoy, caddy; as root
       cargo xtask bench store [--quick] [--only SCALE,…] [--contenders NAME,…] [--out FOLDER] [--dir FOLDER]
                                         the store beside foyer, files, a plain log and a bare io_uring loop; not in .ci,
                                         since it builds foyer; --help after it tells more
       cargo xtask bench micro [--save] [--seconds S] [--dir FOLDER]
                                         each step of the hot paths by itself, beside a saved baseline
       cargo xtask soak [--for 1h] [--rate N] [--quick] [--out FOLDER] [--dir FOLDER]
                                         half of the load that can be served, while disks fail and come back: nothing may grow
       cargo xtask verify [TOPIC] [--for TIME] [--quick] [--out FOLDER] [--dir FOLDER]
                                         a live check of what is claimed, judged, with a result; without a topic, a list of them;
                                         --quick is a smoke in cargo's dev profile
       cargo xtask verify rules [--quick] [--only SET,...] [--out FOLDER]
                                         the rules of cosm smooth train beside those of Weka's JRip on public data sets; takes Java and Python
       cargo xtask verify h2 [--out FOLDER]
                                         the cases of h2spec, over TLS and by prior knowledge; takes Go and OpenSSL
       cargo xtask verify acme [--quick] [--out FOLDER]
                                         certificates from pebble in each way, and one renewed under load; takes Go and curl
       cargo xtask compare-libcachesim [--python PROGRAM] TRACE...
                                         hits and speed of `cosm lab simulate` beside the Python package libcachesim
       cargo xtask conformance [--suite FOLDER] [--id TEST]
                                         the public caching tests, by Node.js, as reverse and as forward proxy";

fn root() -> Result<&'static Path, String> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or_else(|| "xtask lies in no folder".into())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["deps"] => root().and_then(layers::check).and_then(|()| deps::run(false)),
        ["deps", "--advisories"] => root().and_then(layers::check).and_then(|()| deps::run(true)),
        ["deb", ref rest @ ..] => root().and_then(|root| deb::run(root, rest)),
        ["conformance", ref rest @ ..] => root().and_then(|root| conformance::run(root, rest)),
        ["compare-libcachesim", ref rest @ ..] => root().and_then(|root| libcachesim::run(root, rest)),
        ["fuzz", ref rest @ ..] => fuzz::run(rest),
        ["sim", ref rest @ ..] => sim::run(rest),
        ["soak", ref rest @ ..] => verify::run("soak", &[&["soak"], rest].concat()),
        ["verify", "acme", ref rest @ ..] => root().and_then(|root| acme::run(root, rest)),
        ["verify", "h2", ref rest @ ..] => root().and_then(|root| h2spec::run(root, rest)),
        ["verify", "rules", ref rest @ ..] => root().and_then(|root| rules::run(root, rest)),
        ["verify", ref rest @ ..] => verify::run("verify", rest),
        ["bench", run, ref rest @ ..] => bench::run(run, rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
