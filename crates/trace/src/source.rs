//! A trace that is read: unpacked, cut into records, parsed; what is malformed is counted and left out.

use crate::Access;
use crate::format::{self, Format, Framing, Kept, Parser};
use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

/// A longer line is malformed.
const LINE_MAX: usize = 64 << 10;
/// What is looked at to tell the format.
const BEGINNING: usize = 32 << 10;
/// Bytes: a larger response is a mistake, and sums of such would not fit.
const LARGEST: u64 = 1 << 40;
/// Faults that are shown.
const SHOWN: usize = 10;

/// The requests of one trace.
pub struct Source {
    input: Box<dyn BufRead + Send>,
    parser: Box<dyn Parser>,
    framing: Framing,
    record: Vec<u8>,
    /// Of the line or record that was read last, from 1.
    number: u64,
    strict: bool,
    faults: Faults,
    tells_cacheable: bool,
}

/// What was malformed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub count: u64,
    /// The first ten: number of the line or record, from 1, and what is wrong with it.
    pub first: Vec<(u64, String)>,
}

impl Source {
    /// Opens a trace, packed by zstd or gzip or not at all. Without a format it is told by how the file begins. An error
    /// is one line.
    pub fn open(path: &Path, format: Option<&Format>) -> Result<Source, String> {
        let at = |error: io::Error| format!("{}: {error}", path.display());
        let mut input = unpacked(Box::new(File::open(path).map_err(at)?)).map_err(at)?;
        let beginning = take(&mut input, BEGINNING).map_err(at)?;
        let format = match format.or_else(|| format::of_beginning(&beginning)) {
            Some(format) => format,
            None => {
                let why = match format::lacks_size(&beginning) {
                    true => "it has columns, but none named `size`: without sizes there is no bandwidth",
                    false => "not of a known trace format; name it by --format",
                };
                return Err(format!("{}: {why}", path.display()));
            }
        };
        Source::of(Box::new(Cursor::new(beginning).chain(input)), format).map_err(at)
    }

    /// Reads what is not packed.
    pub fn of(input: Box<dyn Read + Send>, format: &Format) -> io::Result<Source> {
        let parser = (format.parser)();
        let framing = parser.framing();
        let mut input = BufReader::with_capacity(256 << 10, input);
        if let Framing::Records { header, .. } = framing {
            io::copy(&mut (&mut input).take(header as u64), &mut io::sink())?;
        }
        let (record, faults) = (Vec::new(), Faults::default());
        let (input, tells_cacheable) = (Box::new(input), format::tells_cacheable(format));
        Ok(Source { input, parser, framing, record, number: 0, strict: false, faults, tells_cacheable })
    }

    /// Ends at the first malformed record.
    pub fn strict(self) -> Source {
        Source { strict: true, ..self }
    }

    /// The next request; false at the end. An error is one line: the medium's, or the first fault of a strict source.
    pub fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        while self.fetch().map_err(|error| format!("after record {}: {error}", self.number))? {
            self.number += 1;
            access.clear();
            let parsed = match self.framing {
                Framing::Lines if self.record.is_empty() || self.record[0] == b'#' => continue,
                Framing::Lines if self.record.len() > LINE_MAX => {
                    Err(format!("longer than {LINE_MAX} bytes"))
                }
                Framing::Records { record, .. } if self.record.len() < record => {
                    Err(format!("ends after {} of {record} bytes", self.record.len()))
                }
                _ => self.parser.parse(&self.record, access),
            };
            let parsed = match parsed {
                Ok(Kept::Yes) if access.size > LARGEST => {
                    Err(format!("a size of {} is larger than any response", access.size))
                }
                parsed => parsed,
            };
            match parsed {
                Ok(Kept::Yes) => return Ok(true),
                Ok(Kept::No) => {}
                Err(why) if self.strict => return Err(format!("{} {}: {why}", self.unit(), self.number)),
                Err(why) => self.faults.note(self.number, why),
            }
        }
        Ok(false)
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Whether the trace says what a cache could store; else the URL does.
    pub fn tells_cacheable(&self) -> bool {
        self.tells_cacheable
    }

    /// What a record is called.
    pub fn unit(&self) -> &'static str {
        match self.framing {
            Framing::Lines => "line",
            Framing::Records { .. } => "record",
        }
    }

    /// Reads one record; false at the end. Of a line that is too long, only so much that it shows.
    fn fetch(&mut self) -> io::Result<bool> {
        self.record.clear();
        match self.framing {
            Framing::Records { record, .. } => {
                self.record.resize(record, 0);
                let mut length = 0;
                while length < record {
                    match self.input.read(&mut self.record[length..]) {
                        Ok(0) => break,
                        Ok(more) => length += more,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                self.record.truncate(length);
                Ok(length > 0)
            }
            Framing::Lines => line(&mut self.input, LINE_MAX, &mut self.record),
        }
    }
}

/// Reads one line without its end; false at the end of all. Of a line of more than `most` bytes, only so much that it shows.
pub fn line(mut input: &mut dyn BufRead, most: usize, into: &mut Vec<u8>) -> io::Result<bool> {
    into.clear();
    let most = most as u64 + 2;
    (&mut input).take(most).read_until(b'\n', into)?;
    let ended = into.pop_if(|last| *last == b'\n').is_some();
    if !ended && into.len() as u64 == most {
        input.skip_until(b'\n')?;
    }
    into.pop_if(|last| *last == b'\r');
    Ok(ended || !into.is_empty())
}

impl Faults {
    /// Counts one, and keeps it if it is among the first.
    pub fn note(&mut self, number: u64, why: String) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push((number, why));
        }
    }
}

/// What is packed by zstd or gzip, unpacked; anything else as it is.
pub fn unpacked(mut input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let magic = take(&mut input, 4)?;
    let whole = Cursor::new(magic.clone()).chain(input);
    let packed = |packed, input| -> Box<dyn Read + Send> { Box::new(Packed { packed, input }) };
    Ok(match magic.as_slice() {
        // A frame, or one that is to be skipped.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            packed("zstd", Box::new(Frames { input: BufReader::new(whole), decoder: FrameDecoder::new() }))
        }
        [0x1f, 0x8b, ..] => packed("gzip", Box::new(Members(Some(GzDecoder::new(BufReader::new(whole)))))),
        _ => Box::new(whole),
    })
}

/// Members of gzip, one after the other. What follows them and is none is an error.
struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            match member.get_mut().fill_buf()? {
                [] => break,
                [0x1f, ..] => self.0 = self.0.take().map(|member| GzDecoder::new(member.into_inner())),
                _ => return Err(io::Error::other("something else follows them")),
            }
        }
        Ok(0)
    }
}

/// Frames of zstd, one after the other, without those that are to be skipped (RFC 8878 section 3.1).
struct Frames<R> {
    input: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Frames<R> {
    /// Goes to the next frame, if there is one.
    fn next(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.input) {
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.input).take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                begun => return begun.map(|()| true).map_err(io::Error::other),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded =
                    self.decoder.decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1));
                decoded.map_err(io::Error::other)?;
            }
            let count = self.decoder.read(into)?;
            if count > 0 || into.is_empty() || !self.next()? {
                return Ok(count);
            }
        }
    }
}

/// What is unpacked, with errors that a user can read.
struct Packed {
    packed: &'static str,
    input: Box<dyn Read + Send>,
}

impl Read for Packed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.input.read(into).map_err(|error| match error.kind() {
            ErrorKind::Interrupted => error,
            _ => damaged(self.packed, &error),
        })
    }
}

/// By the error or one that it has for its reason: whether the input ended early.
fn damaged(packed: &str, error: &(dyn Error + 'static)) -> io::Error {
    let mut reason = Some(error);
    let mut is_cut_off = false;
    while let Some(error) = reason {
        let of_input = error.downcast_ref::<io::Error>();
        is_cut_off |= of_input.is_some_and(|error| error.kind() == ErrorKind::UnexpectedEof);
        // The source of such an error is that of the one within it, which is no step further.
        let within = of_input.and_then(|error| error.get_ref());
        reason = within.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source());
    }
    io::Error::other(match is_cut_off {
        true => format!("the file has been cut off: its {packed} data end early"),
        false => format!("no sound {packed} data: {error}"),
    })
}

/// Up to so many bytes.
fn take(input: &mut Box<dyn Read + Send>, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const LINES: &str = "size,url\n1,/a\nx,/b\n\n# a remark\n3\n4,/d\r\n";

    fn all(source: &mut Source) -> Result<Vec<u64>, String> {
        let (mut sizes, mut access) = (Vec::new(), Access::default());
        while source.next(&mut access)? {
            sizes.push(access.size);
        }
        Ok(sizes)
    }

    #[test]
    fn what_is_malformed_is_counted_and_left_out() {
        let open = || {
            let format = format::named("csv").unwrap();
            Source::of(Box::new(Cursor::new(LINES.as_bytes().to_vec())), format).unwrap()
        };
        let mut source = open();
        assert_eq!(all(&mut source), Ok(vec![1, 4]));
        assert_eq!(source.faults().count, 2);
        assert_eq!(source.faults().first[0], (3, "`x` is no size".into()));
        assert_eq!(source.faults().first[1].0, 6);
        assert_eq!(all(&mut open().strict()), Err("line 3: `x` is no size".into()));
    }

    #[test]
    fn what_is_larger_than_any_response_is_malformed() {
        let lines = format!("size,url\n{},/a\n{LARGEST},/b\n{},/c\n", u64::MAX, LARGEST + 1);
        let mut source = Source::of(Box::new(Cursor::new(lines)), format::named("csv").unwrap()).unwrap();
        assert_eq!(all(&mut source), Ok(vec![LARGEST]));
        assert_eq!(source.faults().count, 2);
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory() {
        let long = [vec![b'a'; 3 * LINE_MAX], b"\n7,/x\n".to_vec()].concat();
        let bytes = [b"size,url\n".to_vec(), long].concat();
        let mut source = Source::of(Box::new(Cursor::new(bytes)), format::named("csv").unwrap()).unwrap();
        assert_eq!(all(&mut source), Ok(vec![7]));
        assert_eq!(source.faults().count, 1);
        assert!(source.record.capacity() < 4 * LINE_MAX);
    }

    #[test]
    fn packed_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain.csv");
        std::fs::write(&plain, LINES).unwrap();
        let packed = folder.path().join("packed");
        let mut gzip =
            flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::fast());
        gzip.write_all(LINES.as_bytes()).unwrap();
        gzip.finish().unwrap();
        let squeezed = folder.path().join("squeezed");
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress(LINES.as_bytes(), File::create(&squeezed).unwrap(), level);
        for path in [&plain, &packed, &squeezed] {
            assert_eq!(all(&mut Source::open(path, None).unwrap()), Ok(vec![1, 4]), "{}", path.display());
        }
        for (text, says) in [("what is this\n", "--format"), ("time\turl\n1\t/a\n", "none named `size`")] {
            std::fs::write(&plain, text).unwrap();
            assert!(Source::open(&plain, None).err().unwrap().contains(says));
        }
    }

    #[test]
    fn a_packed_file_that_has_been_cut_off_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let lines: String = (0..5000).map(|nth| format!("{nth},/{}\n", nth * 7919 % 5000)).collect();
        let text = format!("size,url\n{lines}");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(text.as_bytes(), level);
        for packed in [gzip.finish().unwrap(), zstd] {
            for end in [5, 8, packed.len() / 2, packed.len() - 1] {
                std::fs::write(&path, &packed[..end]).unwrap();
                let why = match Source::open(&path, Some(format::named("csv").unwrap())) {
                    Ok(mut source) => all(&mut source).unwrap_err(),
                    Err(why) => why,
                };
                assert!(why.contains("the file has been cut off"), "{end} of {}: {why}", packed.len());
            }
        }
    }

    #[test]
    fn frames_of_zstd_are_read_and_those_to_skip_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let frame = |text: &str| {
            ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
        };
        let skipped = b"\x52\x2a\x4d\x18\x03\0\0\0abc".to_vec();
        let (first, second) = (frame("size,url\n1,/a\n"), frame("4,/b\n"));
        let read = |parts: &[&[u8]]| {
            std::fs::write(&path, parts.concat()).unwrap();
            all(&mut Source::open(&path, Some(format::named("csv").unwrap()))?)
        };
        assert_eq!(read(&[&first, &second]), Ok(vec![1, 4]));
        assert_eq!(read(&[&skipped, &first, &skipped, &second, &skipped]), Ok(vec![1, 4]));
        assert!(read(&[&first, &skipped[..9]]).unwrap_err().contains("the file has been cut off"));
        assert!(read(&[&first, b"what is this"]).unwrap_err().contains("no sound zstd data"));
    }

    #[test]
    fn members_of_gzip_are_read_and_what_else_follows_them_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let member = |text: &str| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(text.as_bytes()).unwrap();
            gzip.finish().unwrap()
        };
        let read = |bytes: &[&[u8]]| {
            std::fs::write(&path, bytes.concat()).unwrap();
            let csv = format::named("csv").unwrap();
            Source::open(&path, Some(csv)).and_then(|mut source| all(&mut source))
        };
        let (first, second) = (member("size,url\n1,/a\n"), member("4,/b\n"));
        assert_eq!(read(&[&first, &second]), Ok(vec![1, 4]));
        assert_eq!(read(&[&first, &member(""), &second]), Ok(vec![1, 4]));
        for behind in [&b"x"[..], b"x,y\n", &[b'x'; 100]] {
            let why = read(&[&first, behind]).unwrap_err();
            assert!(why.ends_with("no sound gzip data: something else follows them"), "{why}");
        }
        assert!(read(&[&first, &second[..7]]).unwrap_err().contains("has been cut off"));
    }

    #[test]
    fn a_record_that_is_cut_off_is_malformed() {
        let format = format::named("oracle-general").unwrap();
        let mut source = Source::of(Box::new(Cursor::new(vec![0; 30])), format).unwrap();
        assert_eq!(all(&mut source), Ok(vec![0]));
        assert_eq!(source.faults().first, [(2, "ends after 6 of 24 bytes".into())]);
    }
}
