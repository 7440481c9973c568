//! A small HTTP/1.1 client on one connection, which it keeps as long as the server does.

use super::SOON;
use socket2::{Domain, Socket, Type};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

pub struct Client {
    server: SocketAddr,
    /// Its own address, if it is not the usual one.
    address: Option<IpAddr>,
    connection: Option<BufReader<TcpStream>>,
    /// Body bytes of an answer that broke off.
    pub partial: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The values of a field, joined.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self
            .headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    pub fn cache_status(&self) -> String {
        self.header("cache-status").unwrap_or_default()
    }

    /// Answered from the cache without asking the origin.
    pub fn is_hit(&self) -> bool {
        let status = self.cache_status();
        status == "cosm; hit" || status.starts_with("cosm; hit;")
    }
}

impl Client {
    pub fn new(server: SocketAddr) -> Client {
        Client { server, address: None, connection: None, partial: Vec::new() }
    }

    /// One with an address of its own.
    pub fn at(address: IpAddr, server: SocketAddr) -> Client {
        Client { server, address: Some(address), connection: None, partial: Vec::new() }
    }

    /// `target` goes into the request line as it is: absolute through a forward proxy, a path to a reverse one.
    pub fn get(&mut self, target: &str, fields: &[&str]) -> io::Result<Answer> {
        self.send("GET", target, fields, b"")
    }

    pub fn send(&mut self, method: &str, target: &str, fields: &[&str], body: &[u8]) -> io::Result<Answer> {
        let kept = self.connection.is_some();
        match self.exchange(method, target, fields, body) {
            // A server may close an idle connection at any time; nothing of an answer has come then.
            Err(error) if kept && error.kind() == io::ErrorKind::ConnectionAborted => {
                self.exchange(method, target, fields, body)
            }
            other => other,
        }
    }

    fn exchange(&mut self, method: &str, target: &str, fields: &[&str], body: &[u8]) -> io::Result<Answer> {
        self.partial.clear();
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.address, self.server)?,
        };
        let host = target.strip_prefix("http://").and_then(|t| t.split('/').next()).unwrap_or("localhost");
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        for field in fields {
            request += field;
            request += "\r\n";
        }
        if !body.is_empty() {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        request += "\r\n";
        let aborted = |error: io::Error| io::Error::new(io::ErrorKind::ConnectionAborted, error);
        connection.get_mut().write_all(&[request.as_bytes(), body].concat()).map_err(aborted)?;
        connection.fill_buf().map_err(aborted)?;
        let (answer, keep) = read_answer(&mut connection, method, &mut self.partial)?;
        if keep {
            self.connection = Some(connection);
        }
        Ok(answer)
    }
}

fn connect(address: Option<IpAddr>, server: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    if let Some(address) = address {
        socket.bind(&SocketAddr::new(address, 0).into())?;
    }
    socket.connect_timeout(&server.into(), SOON)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SOON))?;
    stream.set_write_timeout(Some(SOON))?;
    Ok(BufReader::with_capacity(64 << 10, stream))
}

fn read_answer(
    connection: &mut BufReader<TcpStream>,
    method: &str,
    body: &mut Vec<u8>,
) -> io::Result<(Answer, bool)> {
    let first = line(connection)?;
    if first.is_empty() {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    let status = first.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let headers = read_fields(connection)?;
    let mut answer = Answer { status, headers, body: Vec::new() };
    let closes = answer.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
    let chunked = answer.header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
    let length: Option<usize> = answer.header("content-length").and_then(|v| v.parse().ok());
    let mut keep = !closes;
    if method == "HEAD" || status == 204 || status == 304 {
    } else if chunked {
        loop {
            let size = line(connection)?;
            let size = usize::from_str_radix(size.split(';').next().unwrap_or("").trim(), 16)
                .map_err(|_| io::ErrorKind::UnexpectedEof)?;
            if size == 0 {
                read_fields(connection)?;
                break;
            }
            read_piece(connection, size, body)?;
            line(connection)?;
        }
    } else if let Some(length) = length {
        read_piece(connection, length, body)?;
    } else {
        connection.read_to_end(body)?;
        keep = false;
    }
    answer.body = std::mem::take(body);
    Ok((answer, keep))
}

/// Header or trailer fields up to the empty line; an origin reads its requests with this, too.
pub fn read_fields(from: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut fields = Vec::new();
    loop {
        let line = line(from)?;
        match line.split_once(':') {
            Some((name, value)) => fields.push((name.trim().to_string(), value.trim().to_string())),
            None if line.is_empty() => return Ok(fields),
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// A line without its end; empty also when the connection ended.
pub fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.read_until(b'\n', &mut bytes)?;
    while bytes.last().is_some_and(|b| matches!(b, b'\r' | b'\n')) {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn read_piece(from: &mut impl Read, length: usize, into: &mut Vec<u8>) -> io::Result<()> {
    let got = from.take(length as u64).read_to_end(into)?;
    if got == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
