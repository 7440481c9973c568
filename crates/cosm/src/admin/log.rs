//! `cosm log --follow`: requests as they end.

use super::ask::{Admin, PATIENCE};
use crate::values::{about_size, duration};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proxy::Address;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write, stdout};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

/// The proxy says every ten seconds that nothing came.
const SILENCE: Duration = Duration::from_secs(30);
/// How long it is waited for where it went away: another process may take over.
const AWAY: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);
/// The content's type.
const LINES: &str = "application/x-ndjson";

/// What one may filter by.
pub const FILTERS: [&str; 5] = ["status", "host", "path", "outcome", "slower"];

/// What the proxy is asked with.
///
/// # Errors
/// One line: it is no filter.
pub fn query(filters: &[&str]) -> Result<String, String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for filter in filters {
        let (name, value) = filter
            .split_once('=')
            .filter(|(name, _)| FILTERS.contains(name))
            .ok_or_else(|| format!("filter: `{filter}` is none of {}=VALUE", FILTERS.join("=VALUE, ")))?;
        match name {
            "slower" => {
                let time = duration(value).map_err(|why| format!("filter slower: {why}"))?;
                query.append_pair(name, &time.as_millis().to_string());
            }
            _ => drop(query.append_pair(name, value)),
        }
    }
    Ok(query.finish())
}

pub fn run(admin: &Admin, query: &str, json: bool) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let mut lines = open(admin, query).await?;
        while print(&mut lines, json).await {
            proxy::say("the proxy has ended the log; waiting for it to come back");
            let until = Instant::now() + AWAY;
            lines = loop {
                sleep(PAUSE).await;
                match open(admin, query).await {
                    Ok(lines) => break lines,
                    Err(why) if Instant::now() > until => return Err(why),
                    Err(_) => {}
                }
            };
        }
        Ok(())
    })
}

async fn open(admin: &Admin, query: &str) -> Result<Incoming, String> {
    let asked = async {
        let mut sender = match &admin.address {
            Address::Tcp(address) => over(TcpStream::connect(address).await?).await?,
            Address::Unix(path) => over(UnixStream::connect(path.as_ref()).await?).await?,
        };
        let mut request = Request::get(format!("/log?{query}")).header("host", "localhost");
        if let Some(token) = &admin.token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        let request = request.body(Empty::new()).map_err(io::Error::other)?;
        sender.send_request(request).await.map_err(io::Error::other)
    };
    let asked = timeout(PATIENCE, asked).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
    let response: Response<Incoming> = asked.map_err(|error| admin.unasked(&error))?;
    let (parts, body) = response.into_parts();
    if parts.status == 200 {
        let is_log = parts.headers.get("content-type").is_some_and(|kind| kind == LINES);
        return is_log.then_some(body).ok_or_else(|| admin.odd());
    }
    let text = timeout(PATIENCE, body.collect()).await.ok().and_then(Result::ok);
    let text = text.map(|text| text.to_bytes()).unwrap_or_default();
    Err(admin.refused(parts.status.as_u16(), &String::from_utf8_lossy(&text)))
}

async fn over<S>(stream: S) -> io::Result<SendRequest<Empty<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    spawn_local(async move { drop(connection.await) });
    Ok(sender)
}

/// Until nothing comes any more; `false` when nobody reads what is printed.
async fn print(body: &mut Incoming, json: bool) -> bool {
    let mut rest = Vec::new();
    while let Ok(Some(Ok(frame))) = timeout(SILENCE, body.frame()).await {
        rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        let mut text = String::new();
        for line in rest[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = String::from_utf8_lossy(line);
            let told = serde_json::from_str(&line).unwrap_or(Value::Null);
            match &told["dropped"] {
                _ if json => text.push_str(&line),
                Value::Number(dropped) => {
                    proxy::say(format_args!(
                        "{dropped} requests are left out: they came faster than they were read"
                    ));
                    continue;
                }
                _ => text.push_str(&shown(&told)),
            }
            text.push('\n');
        }
        rest.drain(..=end);
        if stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush()).is_err() {
            return false;
        }
    }
    true
}

/// A request on one line, for people.
fn shown(told: &Value) -> String {
    let text = |name: &str| told[name].as_str().unwrap_or("-");
    let time = told["time"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let time = time.map(|time| time.to_zoned(TimeZone::system()).strftime("%H:%M:%S%.3f").to_string());
    let took = Duration::try_from_secs_f64(told["duration"].as_f64().unwrap_or_default()).unwrap_or_default();
    let mut line = String::new();
    write!(
        line,
        "{} {:<15} {:>3} {:<16} {:<6} {:>10} {:>9} {} {}",
        time.as_deref().unwrap_or("-"),
        text("client"),
        told["status"],
        text("outcome"),
        text("from"),
        about_size(told["bytes"].as_u64().unwrap_or_default()),
        format!("{:.1} ms", took.as_secs_f64() * 1000.0),
        text("method"),
        text("url"),
    )
    .expect("a string takes all");
    // What others wrote must not move the cursor.
    line.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn filters_are_passed_on() {
        let expected = "status=5xx&host=*.a&path=%2Fb%3F%26*&slower=1500";
        assert_eq!(
            query(&["status=5xx", "host=*.a", "path=/b?&*", "slower=1500ms"]).as_deref(),
            Ok(expected)
        );
        for wrong in ["status", "url=http://a/", "slower=1", "slower="] {
            let why = query(&[wrong]).unwrap_err();
            assert_eq!(why.lines().count(), 1, "{why}");
        }
    }

    #[test]
    fn a_request_is_one_line() {
        let told = json!({
            "time": "2026-01-02T03:04:05.678Z", "client": "192.0.2.7", "status": 200, "outcome": "hit", "from": "memory",
            "bytes": 2048, "duration": 0.0123, "method": "GET", "url": "http://a/\u{1b}[2J\n",
        });
        let line = shown(&told);
        let rest =
            ":05.678 192.0.2.7       200 hit              memory    2.0 KiB   12.3 ms GET http://a/ [2J ";
        assert!(line.ends_with(rest), "{line}");
        assert!(shown(&Value::Null).ends_with("- -"));
    }
}
