//! The live log: requests as they end, a line of JSON each.

use super::Visitor;
use crate::report::watch::{Filter, Watch};
use bytes::Bytes;
use cache::Glob;
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Filters of a kind at most: each request is compared with all.
const MOST: usize = 16;

/// What a query lets through.
pub fn filter(query: &str) -> Result<Filter, String> {
    let mut filter = Filter::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let glob = |text: &str| {
            Glob::new(text)
                .ok_or_else(|| format!("{name}: more than {} characters: end it earlier with `*`", Glob::MAX))
        };
        match &*name {
            "status" => filter.statuses.push(status(&value)?),
            "host" => filter.hosts.push(glob(&value.to_ascii_lowercase())?),
            "path" => filter.paths.push(glob(&value)?),
            "outcome" => filter.outcomes.push(glob(&value)?),
            "slower" => {
                let millis = value.parse().map_err(|_| {
                    format!("slower: `{}` is not a number of milliseconds", value.escape_debug())
                })?;
                filter.slower = Duration::from_millis(millis);
            }
            _ => {
                return Err(format!(
                    "`{}` is none of status, host, path, outcome, slower",
                    name.escape_debug()
                ));
            }
        }
    }
    let Filter { statuses, hosts, paths, outcomes, .. } = &filter;
    if [statuses.len(), hosts.len(), paths.len(), outcomes.len()].iter().any(|count| *count > MOST) {
        return Err(format!("there are more than {MOST} filters of a kind"));
    }
    Ok(filter)
}

/// `404`, or `4xx` for its class.
fn status(text: &str) -> Result<RangeInclusive<u16>, String> {
    let class = text.strip_suffix("xx").and_then(|class| class.parse::<u16>().ok());
    match (class, text.parse::<u16>()) {
        (Some(class @ 1..=9), _) => Ok(100 * class..=100 * class + 99),
        (None, Ok(status @ (0 | 100..=999))) => Ok(status..=status),
        _ => Err(format!("status: `{}` is neither a status such as 404 nor 4xx", text.escape_debug())),
    }
}

type Next = Pin<Box<dyn Future<Output = Option<Vec<u8>>>>>;

/// The body of an answer that goes on until its reader leaves.
pub struct Lines {
    watch: Rc<Watch>,
    next: Next,
    _speaks: Speaks,
}

/// A connection on which something is being answered.
pub struct Speaks(pub Rc<Visitor>);

impl Drop for Speaks {
    fn drop(&mut self) {
        self.0.falls_silent();
    }
}

impl Lines {
    pub fn of(watch: Watch, speaks: Speaks) -> Lines {
        let watch = Rc::new(watch);
        Lines { next: next(&watch), watch, _speaks: speaks }
    }
}

fn next(watch: &Rc<Watch>) -> Next {
    let watch = watch.clone();
    Box::pin(async move { watch.next().await })
}

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let lines = ready!(self.next.as_mut().poll(cx));
        self.next = next(&self.watch);
        Poll::Ready(lines.map(|lines| Ok(Frame::data(lines.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_told_what_is_wrong_with_them() {
        let of = |query: &str| filter(query).map(|filter| (filter.statuses, filter.slower));
        let expected = (vec![500..=599, 404..=404], Duration::from_millis(1500));
        assert_eq!(of("status=5xx&status=404&host=*.A&path=/%3F*&outcome=miss*&slower=1500"), Ok(expected));
        let long = format!("path={}", "x".repeat(128));
        let hosts = |count| "host=a&".repeat(count);
        assert!(filter(&hosts(16)).is_ok());
        let many = hosts(17);
        for wrong in [
            "status=5x",
            "status=xx",
            "status=0xx",
            "status=1",
            "status=1000",
            "slower=1s",
            "url=http://a/",
            &long,
            &many,
        ] {
            let why = of(wrong).unwrap_err();
            assert!(why.lines().count() == 1 && why.len() < 100, "{wrong}: {why}");
        }
    }
}
