//! Pieces of a page. All text is escaped here.

use std::fmt::Write;

/// Text as it stands in a page; control characters, which no page may have, are left out.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars().filter(|character| trace::is_harmless(*character)) {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            character => escaped.push(character),
        }
    }
    escaped
}

/// A heading of a level, which says when what follows comes of synthetic input.
pub fn heading(level: u8, text: &str, synthetic: bool) -> String {
    let tag = if synthetic { " <span class=\"tag\">synthetic input</span>" } else { "" };
    format!("<h{level}>{}{tag}</h{level}>\n", escape(text))
}

pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// A picture with words under it.
pub fn figure(svg: &str, caption: &str) -> String {
    format!("<figure>\n{svg}<figcaption>{}</figcaption>\n</figure>\n", escape(caption))
}

/// A table of numbers; `words` has text in all columns.
pub fn table(words: bool, head: &[String], rows: &[Vec<String>]) -> String {
    let class = if words { " class=\"words\"" } else { "" };
    let line = |tag: &str, cells: &[String]| {
        let cells = cells.iter().fold(String::new(), |mut all, cell| {
            let _ = write!(all, "<{tag}>{}</{tag}>", escape(cell));
            all
        });
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(|row| line("td", row)).collect();
    format!(
        "<div class=\"wide\"><table{class}>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n",
        line("th", head)
    )
}

/// 1,058,206.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// In the unit that suits it.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, shift)| bytes >= 1 << shift) {
        Some((unit, shift)) => {
            let number = format!("{:.2}", bytes as f64 / (1u64 << shift) as f64);
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{bytes} bytes"),
    }
}

/// Decimal units, as the thesis has them.
pub fn mb(bytes: f64) -> String {
    match bytes / 1e6 {
        large if large >= 1000.0 => format!("{} MB", thousands(large.round() as u64)),
        some if some >= 0.1 || bytes == 0.0 => format!("{some:.2} MB"),
        _ => format!("{:.2} KB", bytes / 1e3),
    }
}

pub fn per_cent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_others_becomes_markup() {
        let text = "<b a=\"1\">&\n\u{1b}\u{202e}";
        assert_eq!(escape(text), "&lt;b a=&quot;1&quot;&gt;&amp;");
        for html in
            [heading(2, text, true), paragraph(text), figure("", text), table(true, &[text.into()], &[])]
        {
            assert!(!html.contains("<b ") && html.contains("&lt;b "), "{html}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([7, 1_000, 1_058_206].map(thousands), ["7", "1,000", "1,058,206"]);
        assert_eq!([512, 1536, 512 << 20, 2 << 30].map(size), ["512 bytes", "1.5 KiB", "512 MiB", "2 GiB"]);
        assert_eq!(per_cent(0.3234), "32.3 %");
        let sizes = [0.0, 1_234.0, 99_999.0, 1_234_567.0, 1_766_740_000.0].map(mb);
        assert_eq!(sizes, ["0.00 MB", "1.23 KB", "100.00 KB", "1.23 MB", "1,767 MB"]);
    }
}
