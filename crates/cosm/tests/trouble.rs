//! Why requests fail at origins: the operator reads it, in lines that no client can make many.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;
use support::program::Server;

#[test]
fn the_operator_reads_why_a_line_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start(
        &folder.path().join("cache"),
        &format!("--cache-size 4MiB --packet 64KiB --origin http://{gone}"),
    );
    let began = Instant::now();
    let mut client = TcpStream::connect(server.address).unwrap();
    for _ in 0..300 {
        client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        // The reason and the id are a line each.
        let is_over = |answer: &[u8]| {
            let body = answer.windows(4).position(|end| end == b"\r\n\r\n").map(|at| &answer[at + 4..]);
            body.is_some_and(|body| body.iter().filter(|byte| **byte == b'\n').count() == 2)
        };
        while !is_over(&answer) {
            let mut byte = [0; 1024];
            let n = client.read(&mut byte).unwrap();
            assert!(n > 0);
            answer.extend_from_slice(&byte[..n]);
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 ") && !answer.contains(&gone.to_string()), "{answer}");
    }
    let seconds = began.elapsed().as_secs() as usize;
    let said = server.said_until_stopped();
    let lines: Vec<_> = said.iter().filter(|line| line.contains("cannot connect")).collect();
    assert!(lines.iter().any(|line| line.contains(&gone.to_string())), "{said:#?}");
    assert!(lines.len() <= seconds + 1, "{said:#?}");
}
