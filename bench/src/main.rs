//! The measuring tool. By hand: `bench origin`, `bench load --proxy ADDR --origin ADDR`, `bench pages`, `bench hyper`,
//! `bench bare`; each server prints the address of its free port on standard output. Whole runs: `cargo xtask bench first-light`,
//! `cargo xtask bench peers`, `cargo xtask bench micro`, `cargo xtask bench allocator`, `cargo xtask verify`.

mod admin;
mod allocator;
mod bare;
mod body;
mod cgroup;
mod cleanup;
mod figures;
mod first_light;
mod load;
mod loopback;
mod machine;
mod micro;
mod minimal_hyper;
mod origin;
mod pages;
mod peers;
mod poll;
mod process;
mod server;
mod usage;
mod verify;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
#[command(name = "bench", about = "Measures Cosm and what it is compared with.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// An origin: /s/<size>/<number> is a cacheable object of that size.
    Origin(Source),
    /// A load generator: a closed loop over keep-alive connections; prints its figures as JSON.
    Load(Load),
    /// A minimal hyper server with one fixed response: the ceiling for a proxy made of hyper.
    Hyper(Fixed),
    /// A bare epoll loop with one fixed response: the ceiling for any server.
    Bare(Fixed),
    /// The figures of the first release: memory hits, disk hits, fill, restart, memory.
    FirstLight(first_light::Request),
    /// Cosm and other caches side by side: every scenario, all in turns.
    Peers(peers::Request),
    /// Each step of the hot paths by itself, beside a saved baseline.
    Micro(micro::Request),
    /// Pages with what is embedded in them, with group reads and without, in turns.
    Pages(pages::Request),
    /// What UNIFIED's allocator costs, by the number of free pieces.
    Allocator(allocator::Request),
    /// Live checks of what is claimed, each judged; without a topic, the list of them.
    Verify(verify::Request),
    /// Runs a program on one core and ends it with its parent.
    #[command(hide = true)]
    Pinned(process::Pinned),
}

#[derive(Args)]
struct Listen {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[derive(Args)]
struct Source {
    #[command(flatten)]
    listen: Listen,
    /// Bytes that the kernel holds at most of what a connection sends [default: as it likes, several MiB]
    #[arg(long)]
    send_buffer: Option<usize>,
}

#[derive(Args)]
struct Fixed {
    #[command(flatten)]
    listen: Listen,
    /// Bytes of the body.
    #[arg(long, default_value_t = 1024)]
    size: u64,
}

#[derive(Args)]
struct Load {
    /// Who is asked.
    #[arg(long)]
    proxy: SocketAddr,
    /// Whose objects a forward proxy is asked for; without it the server is asked for its own.
    #[arg(long)]
    origin: Option<SocketAddr>,
    /// Tell hits by a number that the origin tells back, not by `Cache-Status`.
    #[arg(long)]
    tagged: bool,
    /// Bytes of each object.
    #[arg(long, default_value_t = 1024)]
    size: u64,
    /// Objects 0 to this.
    #[arg(long, default_value_t = 64)]
    objects: u64,
    #[arg(long, value_enum, default_value = "cycle")]
    order: OrderName,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// How long; `--order once` ends by itself.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// One body in so many is compared with what the origin has; 0 for none.
    #[arg(long, default_value_t = 64)]
    check_every: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum OrderName {
    Cycle,
    Random,
    Once,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Origin(source) => {
            let listener = source.listen.open()?;
            // Accepted sockets inherit it.
            source
                .send_buffer
                .map_or(Ok(()), |bytes| set_socket_send_buffer_size(&listener, bytes))
                .map_err(|e| format!("a send buffer: {e}"))?;
            server::serve(&listener, &mut origin::Origin::new(), origin::AWAKE).map_err(|e| e.to_string())
        }
        Command::Bare(fixed) => {
            let listener = fixed.listen.open()?;
            server::serve(&listener, &mut bare::Bare::new(fixed.size), Duration::ZERO)
                .map_err(|e| e.to_string())
        }
        Command::Hyper(fixed) => {
            minimal_hyper::serve(fixed.listen.open()?, fixed.size).map_err(|e| e.to_string())
        }
        Command::Load(load) => {
            let outcome = load::run(&load.plan())?;
            println!("{}", serde_json::to_string_pretty(&outcome).map_err(|e| e.to_string())?);
            let busy = outcome.load_busy_seconds / outcome.seconds;
            eprintln!(
                "{:.0} requests a second; the generator used {busy:.2} of a core",
                outcome.per_second()
            );
            outcome.fault().map_or(Ok(()), Err)
        }
        Command::FirstLight(request) => first_light::run(&request),
        Command::Peers(request) => peers::run(&request),
        Command::Pages(request) => pages::run(&request),
        Command::Allocator(request) => allocator::run(&request),
        Command::Micro(request) => micro::run(&request),
        Command::Verify(request) => verify::run(&request),
        Command::Pinned(pinned) => Err(pinned.exec()),
    }
}

impl Listen {
    /// Listens and says where.
    fn open(&self) -> Result<TcpListener, String> {
        let listener = TcpListener::bind(self.listen).map_err(|e| format!("listen {}: {e}", self.listen))?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{address}").and_then(|()| stdout.flush()).map_err(|e| e.to_string())?;
        Ok(listener)
    }
}

impl Load {
    fn plan(&self) -> load::Plan {
        let all = 0..self.objects;
        load::Plan {
            target: load::Target {
                server: self.proxy,
                origin: self.origin,
                tagged: self.tagged,
                close: false,
            },
            speaks: load::Speaks::Http,
            size: self.size,
            workload: None,
            order: match self.order {
                OrderName::Cycle => load::Order::Cycle(all),
                OrderName::Random => load::Order::Random(all, self.seed),
                OrderName::Once => load::Order::Once(all),
            },
            connections: self.connections,
            lasts: Some(Duration::from_secs_f64(self.seconds)),
            check_every: self.check_every,
        }
    }
}

/// Where this program lies, to start itself again in another role.
fn own_path() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|e| format!("own path: {e}"))
}
