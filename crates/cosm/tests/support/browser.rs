//! Chromium without a window, told what to do over its DevTools protocol.

use super::SOON;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A page in a browser, which ends with it.
pub struct Browser {
    child: Child,
    orders: File,
    answers: Receiver<Value>,
    number: u64,
    session: Option<String>,
    /// What the page has said on its console, thrown, or was refused.
    pub said: Vec<String>,
    _folder: TempDir,
}

impl Browser {
    /// With a window of this width; one as narrow as a telephone's is one.
    pub fn start(width: u32) -> Browser {
        let folder = tempfile::tempdir().unwrap();
        let [orders, answers] = ["orders", "answers"].map(|name| folder.path().join(name));
        let made = Command::new("mkfifo").args([&orders, &answers]).status().unwrap();
        assert!(made.success());
        // The protocol is spoken over descriptors 3 and 4.
        let script = "exec chromium --headless=new --no-sandbox --disable-gpu --remote-debugging-pipe \
                      --user-data-dir=\"$1\" about:blank 3<\"$2\" 4>\"$3\"";
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args([&folder.path().join("profile"), &orders, &answers])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let orders = File::options().write(true).open(orders).unwrap();
        let mut from = BufReader::new(File::open(answers).unwrap());
        let (send, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let told = serde_json::from_slice(&message).unwrap_or_default();
                if send.send(told).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser =
            Browser { child, orders, answers, number: 0, session: None, said: Vec::new(), _folder: folder };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime", "Log", "Page"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let metrics = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600 });
        browser.call("Emulation.setDeviceMetricsOverride", metrics);
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut order = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = &self.session {
            order["sessionId"] = session.as_str().into();
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).unwrap();
        loop {
            let told = self.answers.recv_timeout(SOON).unwrap_or_else(|why| panic!("{method}: {why}"));
            if told["id"] == self.number {
                assert!(told["error"].is_null(), "{method}: {told}");
                return told["result"].clone();
            }
            if let Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") =
                told["method"].as_str()
            {
                self.said.push(told["params"].to_string());
            }
        }
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// What an expression gives on the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        self.try_to_eval(expression).unwrap_or_else(|told| panic!("{expression}: {told}"))
    }

    fn try_to_eval(&mut self, expression: &str) -> Result<Value, Value> {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let told = self.call("Runtime.evaluate", asked);
        if told["exceptionDetails"].is_null() { Ok(told["result"]["value"].clone()) } else { Err(told) }
    }

    /// Waits until an expression is true; before the page is there it may throw.
    pub fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.try_to_eval(expression) != Ok(true.into()) {
            let text = "document.body && document.body.innerText";
            assert!(began.elapsed() < SOON, "{expression}: {} {:?}", self.eval(text), self.said);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
