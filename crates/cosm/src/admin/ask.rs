//! A request to the admin interface of a proxy that runs.

use proxy::{Address, Token};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For a connection, and for each step of an answer.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// For all of an answer.
const WHOLE: Duration = Duration::from_secs(60);
/// Bytes of an answer.
const MOST: usize = 16 << 20;

/// Where it is, and what it wants to know.
pub struct Admin {
    pub address: Address,
    pub token: Option<Arc<Token>>,
}

impl Admin {
    /// What is at a path, with its query; it has this member.
    ///
    /// # Errors
    /// One line: nobody answers, or what was asked for is not given.
    pub fn ask(&self, path: &str, member: &str) -> Result<serde_json::Value, String> {
        let text = self.exchange("GET", path)?;
        let told: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        told.filter(|told| told.get(member).is_some()).ok_or_else(|| self.odd())
    }

    /// Has something done, and gives what is said of it.
    ///
    /// # Errors
    /// As `ask`.
    pub fn order(&self, path: &str) -> Result<String, String> {
        self.exchange("POST", path)
    }

    /// Why nobody answers, in one line.
    pub fn unasked(&self, error: &io::Error) -> String {
        let Admin { address, .. } = self;
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => format!(
                "no admin interface answers on {address} ({error}): start cosm serve --admin {address}, or say with --admin where it is"
            ),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("what listens on {address} does not answer within {} s", PATIENCE.as_secs())
            }
            _ => format!("cannot ask the admin interface on {address}: {error}"),
        }
    }

    /// What an answer with another status than 200 says.
    pub fn refused(&self, status: u16, text: &str) -> String {
        match status {
            401 => format!(
                "the admin interface on {} wants its token: name its file with --admin-token",
                self.address
            ),
            404 => self.odd(),
            _ => {
                let line = text.lines().next().filter(|line| !line.is_empty());
                line.map_or_else(|| self.odd(), str::to_owned)
            }
        }
    }

    pub fn odd(&self) -> String {
        format!("what answers on {} is no admin interface of cosm", self.address)
    }

    fn exchange(&self, method: &str, path: &str) -> Result<String, String> {
        let answer = self.answer(method, path).map_err(|error| self.unasked(&error))?;
        let (head, body) = split(&answer).ok_or_else(|| self.odd())?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let text = String::from_utf8_lossy(body).into_owned();
        match status.ok_or_else(|| self.odd())? {
            200 => Ok(text),
            status => Err(self.refused(status, &text)),
        }
    }

    fn answer(&self, method: &str, path: &str) -> io::Result<Vec<u8>> {
        match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                self.over(stream, method, path)
            }
            Address::Unix(at) => {
                let stream = UnixStream::connect(at)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                self.over(stream, method, path)
            }
        }
    }

    fn over(&self, mut stream: impl Read + Write, method: &str, path: &str) -> io::Result<Vec<u8>> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n"
        );
        if let Some(token) = &self.token {
            write!(request, "Authorization: Bearer {}\r\n", token.reveal()).expect("a string takes all");
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes())?;
        let (mut answer, mut more) = (Vec::new(), vec![0; 64 << 10]);
        let until = Instant::now() + WHOLE;
        // What keeps the connection open has answered nevertheless.
        while split(&answer).is_none() && answer.len() < MOST {
            if Instant::now() > until {
                return Err(io::Error::other(format!("the answer is not whole after {} s", WHOLE.as_secs())));
            }
            match stream.read(&mut more)? {
                0 => break,
                read => answer.extend_from_slice(&more[..read]),
            }
        }
        Ok(answer)
    }
}

/// Head and body of an answer that is whole.
fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]);
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    };
    let length = head.lines().find_map(field);
    (head.starts_with("HTTP/1.") && length == Some(body.len())).then_some((head, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_counts() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-Length: 2\r\n\r\n{}";
        assert_eq!(split(whole).map(|(_, body)| body), Some(&b"{}"[..]));
        for wrong in [&whole[..whole.len() - 1], b"SSH-2.0\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\n\r\n{}"] {
            assert_eq!(split(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }
}
