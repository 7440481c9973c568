//! An origin on a free port: a thread a connection, the answers a function of the request.

use super::client::{line, read_fields};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

pub struct Origin {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    seen: Mutex<Vec<Asked>>,
    connections: Mutex<Vec<TcpStream>>,
    closing: AtomicBool,
}

/// A request as it reached the origin.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

pub struct Reply {
    pub status: u16,
    /// Whole lines.
    pub fields: Vec<String>,
    pub body: Vec<u8>,
    pub framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length,
    Chunked,
    /// Content-Length says more than comes before the connection closes.
    TooShort,
    /// Chunks without the last one, then the connection closes.
    WithoutLastChunk,
}

impl Reply {
    /// 200, fresh for a year.
    pub fn fresh(body: impl Into<Vec<u8>>) -> Reply {
        let fields =
            vec!["Cache-Control: max-age=31536000".into(), "Content-Type: application/octet-stream".into()];
        Reply { status: 200, fields, body: body.into(), framing: Framing::Length }
    }

    pub fn empty(status: u16) -> Reply {
        Reply { status, fields: Vec::new(), body: Vec::new(), framing: Framing::Length }
    }

    pub fn field(mut self, line: impl Into<String>) -> Reply {
        self.fields.push(line.into());
        self
    }

    pub fn framed(mut self, framing: Framing) -> Reply {
        self.framing = framing;
        self
    }
}

impl Origin {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            connections: Mutex::default(),
            closing: AtomicBool::new(false),
        });
        let answer = Arc::new(answer);
        let ours = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ours.closing.load(Relaxed) {
                    return;
                }
                let (ours, answer) = (ours.clone(), answer.clone());
                ours.connections.lock().unwrap().extend(stream.try_clone());
                std::thread::spawn(move || {
                    // A connection that breaks is the other side's business.
                    let _ = serve(stream, &ours, &*answer);
                });
            }
        });
        Origin { address, shared }
    }

    /// The absolute URL of a path here.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Asked> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// How many requests asked for this path.
    pub fn asked_for(&self, path: &str) -> usize {
        self.shared.seen.lock().unwrap().iter().filter(|asked| asked.target == path).count()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.closing.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
        for connection in self.shared.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn serve(stream: TcpStream, shared: &Shared, answer: &dyn Fn(&Asked) -> Reply) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut from = BufReader::new(stream.try_clone()?);
    let mut to = stream;
    loop {
        let first = line(&mut from)?;
        let mut words = first.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(()) };
        let headers = read_fields(&mut from)?;
        let mut asked = Asked { method: method.into(), target: target.into(), headers, body: Vec::new() };
        if let Some(length) = asked.header("content-length").and_then(|v| v.parse().ok()) {
            asked.body = vec![0; length];
            from.read_exact(&mut asked.body)?;
        }
        shared.seen.lock().unwrap().push(asked.clone());
        let reply = answer(&asked);
        if !send(&mut to, &asked, reply)? {
            return to.shutdown(Shutdown::Both);
        }
    }
}

/// Whether the connection stays.
fn send(to: &mut TcpStream, asked: &Asked, reply: Reply) -> io::Result<bool> {
    let mut head = format!("HTTP/1.1 {} Status\r\n", reply.status);
    for field in &reply.fields {
        head += field;
        head += "\r\n";
    }
    let length = reply.body.len();
    match reply.framing {
        _ if matches!(reply.status, 204 | 304) => {}
        Framing::Length => head += &format!("Content-Length: {length}\r\n"),
        Framing::TooShort => head += &format!("Content-Length: {}\r\n", length + 1000),
        Framing::Chunked | Framing::WithoutLastChunk => head += "Transfer-Encoding: chunked\r\n",
    }
    head += "\r\n";
    if asked.method == "HEAD" {
        to.write_all(head.as_bytes())?;
        return Ok(true);
    }
    match reply.framing {
        Framing::Length | Framing::TooShort => to.write_all(&[head.as_bytes(), &reply.body].concat())?,
        Framing::Chunked | Framing::WithoutLastChunk => {
            to.write_all(head.as_bytes())?;
            for piece in reply.body.chunks(10_000) {
                to.write_all(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
            }
            if reply.framing == Framing::Chunked {
                to.write_all(b"0\r\n\r\n")?;
            }
        }
    }
    Ok(matches!(reply.framing, Framing::Length | Framing::Chunked))
}
