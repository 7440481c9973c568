//! The page at `/`: static files, which know nothing and ask the other routes for all they show.

use super::{Answer, Route};
use http::Method;

const fn file(
    path: &'static str,
    content_type: &'static str,
    help: &'static str,
    text: &'static str,
) -> Route {
    Route { path, method: Method::GET, help, content_type, answer: Answer::Text(text), open: true }
}

pub static ROUTES: [Route; 4] = [
    file(
        "/",
        "text/html; charset=utf-8",
        "a page for a browser with all of this",
        include_str!("index.html"),
    ),
    file("/page.css", "text/css; charset=utf-8", "how it looks", include_str!("page.css")),
    file("/page.js", "text/javascript; charset=utf-8", "what it does", include_str!("page.js")),
    file("/icon.svg", "image/svg+xml", "its icon", include_str!("icon.svg")),
];
