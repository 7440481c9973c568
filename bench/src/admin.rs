//! What the admin interface of a Cosm tells, and what it is told.

use crate::loopback;
use std::io::{Read, Write};
use std::net::SocketAddr;

/// All that is counted.
pub fn stats(admin: SocketAddr) -> Result<serde_json::Value, String> {
    told(admin, "/stats.json")
}

/// What one of its routes tells, as JSON.
pub fn told(admin: SocketAddr, path: &str) -> Result<serde_json::Value, String> {
    let (_, body) = ask(admin, "GET", path)?;
    serde_json::from_str(&body).map_err(|error| format!("{path}: {error}"))
}

/// What a route answers: the number of its status, and its text.
pub fn state(admin: SocketAddr, path: &str) -> Result<(u16, String), String> {
    let (head, body) = ask(admin, "GET", path)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| format!("{path}: no answer"))?, body))
}

/// What is stored of this URL answers no more.
pub fn purge(admin: SocketAddr, url: &str) -> Result<(), String> {
    let (head, _) = ask(admin, "POST", &format!("/purge?url={url}"))?;
    let line = head.lines().next().unwrap_or_default();
    line.contains(" 200 ").then_some(()).ok_or_else(|| format!("purge {url}: {line}"))
}

fn ask(admin: SocketAddr, method: &str, target: &str) -> Result<(String, String), String> {
    let say = |error: std::io::Error| format!("{admin}: {error}");
    let mut stream = loopback::aside(admin).map_err(say)?;
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .map_err(say)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(say)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((head.into(), body.into()))
}
