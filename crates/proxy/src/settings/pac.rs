//! Proxy auto-configuration: which requests a browser sends to this proxy, as a function in JavaScript.

use crate::authority::host_and_port;
use std::sync::Arc;

/// Under which names it is asked for: the second is that of WPAD.
pub const PATHS: [&str; 2] = ["/proxy.pac", "/wpad.dat"];
pub const CONTENT_TYPE: &str = "application/x-ns-proxy-autoconfig";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pac {
    /// It follows from where this proxy is reached.
    #[default]
    Made,
    /// The operator's own.
    Own(Arc<str>),
    Off,
}

/// Names and addresses of this host and its network are asked for directly. No name is looked up: that would have to be waited for at
/// each request, and would tell the resolver what is asked for.
const TEXT: &str = r#"// Which requests go to the proxy. Made by cosm; --pac has a file instead.
function FindProxyForURL(url, host) {
  var proxy = "PROXY $proxy; DIRECT";
  var name = host.toLowerCase().replace(/^\[|\]$/g, "").replace(/\.$/, "");
  if (!/^(http|ws)s?:/i.test(url)) return "DIRECT";
  if (name.indexOf(":") >= 0) {
    return /^(::1?$|f[cd][0-9a-f]{2}:|fe[89ab][0-9a-f]:)/.test(name) ? "DIRECT" : proxy;
  }
  if (name.indexOf(".") < 0 || /\.(local|localhost)$/.test(name)) return "DIRECT";
  if (/^\d+\.\d+\.\d+\.\d+$/.test(name)) {
    return /^(0|10|127|169\.254|192\.168|172\.(1[6-9]|2\d|3[01])|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\./.test(name) ? "DIRECT" : proxy;
  }
  return proxy;
}
"#;

impl Pac {
    /// For browsers that reach the proxy at this host and port. `None`: there is none.
    pub fn text(&self, host: &str, port: u16) -> Option<String> {
        match self {
            Pac::Made => Some(TEXT.replace("$proxy", &format!("{host}:{port}"))),
            Pac::Own(text) => Some(text.to_string()),
            Pac::Off => None,
        }
    }
}

/// The host and the port of a Host field, if nothing in it means something else elsewhere.
pub fn reached_at(field: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = host_and_port(field)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (host.starts_with('[') || host.bytes().all(is_plain)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn it_names_the_proxy_once() {
        let made = Pac::Made.text("cache.example", 3128).unwrap();
        assert_eq!(made.matches("cache.example:3128").count(), 1);
        assert!(
            made.contains("  var proxy = \"PROXY cache.example:3128; DIRECT\";\n")
                && !made.contains("$proxy")
        );
        for lookup in ["dnsResolve", "isInNet", "isResolvable", "myIpAddress"] {
            assert!(!made.contains(lookup), "{lookup}");
        }
        assert_eq!(Pac::Own("own $proxy".into()).text("a", 1).as_deref(), Some("own $proxy"));
        assert_eq!(Pac::Off.text("a", 1), None);
    }

    #[test]
    fn a_host_is_nothing_else_in_a_script() {
        for (field, expected) in [
            ("cache.example:3128", Some(("cache.example", Some(3128)))),
            ("wpad", Some(("wpad", None))),
            ("[::1]:80", Some(("[::1]", Some(80)))),
            ("a;DIRECT", None),
            ("a\"b", None),
            ("a'b", None),
            ("$proxy", None),
            ("", None),
        ] {
            assert_eq!(reached_at(field), expected, "{field}");
        }
    }

    /// The URL, and whether it goes to the proxy.
    const CASES: &[(&str, bool)] = &[
        ("http://example.com/", true),
        ("https://www.Example.com:8443/a", true),
        ("ws://example.com/", true),
        ("HTTP://example.com/", true),
        ("ftp://example.com/", false),
        ("http://intranet/", false),
        ("http://intranet./", false),
        ("http://printer.local/", false),
        ("http://a.localhost/", false),
        ("http://local.example/", true),
        ("http://127.0.0.1:8080/", false),
        ("http://10.1.2.3/", false),
        ("http://10.example.com/", true),
        ("http://110.1.2.3/", true),
        ("http://172.15.0.1/", true),
        ("http://172.16.0.1/", false),
        ("http://172.31.0.1/", false),
        ("http://172.32.0.1/", true),
        ("http://192.168.1.1/", false),
        ("http://192.169.1.1/", true),
        ("http://169.254.169.254/", false),
        ("http://100.63.0.1/", true),
        ("http://100.64.0.1/", false),
        ("http://100.127.0.1/", false),
        ("http://100.128.0.1/", true),
        ("http://8.8.8.8/", true),
        ("http://[::1]/", false),
        ("http://[fd00::1]/", false),
        ("http://[fe80::1]/", false),
        ("http://[2001:db8::1]/", true),
        ("http://[::ffff:8.8.8.8]/", true),
    ];

    #[test]
    #[ignore = "needs node"]
    fn it_is_javascript_that_tells_them_apart() {
        let mut script = Pac::Made.text("[2001:db8::5]", 3128).unwrap();
        for (url, _) in CASES {
            let host = url.split("://").nth(1).unwrap().split('/').next().unwrap();
            let host = host_and_port(host).unwrap().0;
            // Browsers leave the brackets away, or not.
            for host in [host, host.trim_start_matches('[').trim_end_matches(']')] {
                script.push_str(&format!("console.log(FindProxyForURL({url:?}, {host:?}));\n"));
            }
        }
        let ran = Command::new("node").arg("-e").arg(&script).output().unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        let expected = CASES.iter().flat_map(|(_, goes)| [*goes; 2]);
        let expected = expected.map(|goes| if goes { "PROXY [2001:db8::5]:3128; DIRECT" } else { "DIRECT" });
        assert_eq!(said.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
