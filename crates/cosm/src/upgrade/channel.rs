//! What two processes of an upgrade say to each other, over a pair of Unix sockets.
//!
//! A message is a byte that says what it is, the length of its text in four bytes (little-endian), and its text. A descriptor
//! comes with its first byte.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Of what is said; another one is not understood. With another set of words it is another version.
pub const VERSION: u8 = 3;

/// Bytes of a text, at most: a key and what was read of a connection are as long as a request's head.
const TEXT: usize = 64 << 20;

macro_rules! words {
    ($($(#[$doc:meta])* $word:ident = $byte:literal,)*) => {
        /// What a message is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Word { $($(#[$doc])* $word = $byte,)* }

        impl Word {
            fn of(byte: u8) -> Option<Word> {
                match byte {
                    $($byte => Some(Word::$word),)*
                    _ => None,
                }
            }
        }
    };
}

words! {
    /// To the successor, first: the version.
    Hello = 1,
    /// A listening socket, and its address as it was given.
    Listener = 2,
    /// The same of the admin interface.
    Admin = 16,
    /// These were all. The successor answers when it could begin.
    Prepare = 3,
    Prepared = 4,
    /// The caches are closed. The successor answers when it has opened them.
    Open = 5,
    Opened = 6,
    /// What lies under this key was replaced or removed.
    Removed = 7,
    /// This scope was purged.
    Purged = 8,
    /// Nothing is begun here any more. The successor answers when it serves.
    Serve = 9,
    Serving = 10,
    /// A question, by its number: when was what was told so far done?
    Confirm = 11,
    /// And when does it survive a kill?
    Persist = 12,
    /// The answer to the question with this number: it is.
    Yes = 14,
    /// It is not, and will not be soon.
    No = 15,
    /// A client's connection, and what was read of it.
    Connection = 13,
    /// Said by either: the signal came to open the logs anew.
    Reopen = 17,
    /// And to read the configuration file again.
    Reload = 18,
    /// To the predecessor: the successor stops, and so is it to do.
    Stop = 19,
    StopGracefully = 20,
}

pub struct Message {
    pub word: Word,
    pub text: Vec<u8>,
    pub descriptor: Option<OwnedFd>,
}

impl Message {
    pub fn of(word: Word, text: impl Into<Vec<u8>>) -> Message {
        Message { word, text: text.into(), descriptor: None }
    }

    pub fn with(self, descriptor: OwnedFd) -> Message {
        Message { descriptor: Some(descriptor), ..self }
    }
}

pub struct Channel(UnixStream);

impl Channel {
    pub fn new(stream: UnixStream) -> Channel {
        Channel(stream)
    }

    pub fn try_clone(&self) -> io::Result<Channel> {
        self.0.try_clone().map(Channel)
    }

    /// For how long a message is waited for.
    pub fn set_patience(&self, patience: Option<Duration>) {
        let _ = self.0.set_read_timeout(patience);
    }

    /// For how long the other process may read nothing before it counts as gone.
    pub fn set_patience_to_send(&self, patience: Duration) {
        let _ = self.0.set_write_timeout(Some(patience));
    }

    /// Nothing more is sent: the other process, which may have half a message, hears the end.
    pub fn end(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Whether this is among what was said and not heard yet, by a process that says nothing more.
    pub fn has_said(&self, word: Word) -> bool {
        self.set_patience(Some(Duration::from_millis(1)));
        std::iter::from_fn(|| self.receive().ok()).any(|message| message.word == word)
    }

    pub fn send(&self, message: &Message) -> io::Result<()> {
        let length = u32::try_from(message.text.len()).map_err(|_| ErrorKind::InvalidInput)?;
        let mut head = [message.word as u8, 0, 0, 0, 0];
        head[1..].copy_from_slice(&length.to_le_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = message.descriptor.iter().map(AsFd::as_fd).collect();
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        // In one piece: a short one is sent whole, or not at all.
        let pieces = [IoSlice::new(&head), IoSlice::new(&message.text)];
        let sent = sendmsg(&self.0, &pieces, &mut ancillary, SendFlags::NOSIGNAL)?;
        (&self.0).write_all(&head[sent.min(head.len())..])?;
        (&self.0).write_all(&message.text[sent.saturating_sub(head.len())..])
    }

    /// The next message; `UnexpectedEof` when the other process is gone.
    pub fn receive(&self) -> io::Result<Message> {
        let mut head = [0; 5];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut head)], &mut ancillary, flags) {
                Err(rustix::io::Errno::INTR) => {}
                got => break got?.bytes,
            }
        };
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        (&self.0).read_exact(&mut head[got..])?;
        let word = Word::of(head[0]).ok_or(ErrorKind::InvalidData)?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > TEXT {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut text = vec![0; length];
        (&self.0).read_exact(&mut text)?;
        Ok(Message { word, text, descriptor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one), Channel::new(other))
    }

    #[test]
    fn messages_come_whole_in_order_and_with_their_descriptors() {
        let (one, other) = pair();
        let long = vec![7; 300_000];
        let sending = std::thread::spawn(move || {
            for n in 0..20u8 {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&[n]).unwrap();
                one.send(&Message::of(Word::Connection, [n]).with(file.into())).unwrap();
                one.send(&Message::of(Word::Removed, vec![7; 300_000])).unwrap();
            }
        });
        for n in 0..20u8 {
            let message = other.receive().unwrap();
            assert_eq!((message.word, &message.text[..]), (Word::Connection, &[n][..]));
            let (mut file, mut byte) = (std::fs::File::from(message.descriptor.unwrap()), [0xff]);
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [n]);
            let message = other.receive().unwrap();
            assert!(message.word == Word::Removed && message.text == long && message.descriptor.is_none());
        }
        sending.join().unwrap();
        assert_eq!(other.receive().err().unwrap().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for bytes in [&[0, 1, 0, 0, 0, 1][..], &[1, 0xff, 0xff, 0xff, 0xff], &[1, 2, 0, 0, 0, 1]] {
            let (one, other) = pair();
            (&one.0).write_all(bytes).unwrap();
            drop(one);
            assert!(other.receive().is_err(), "{bytes:?}");
        }
        let (_one, other) = pair();
        other.set_patience(Some(Duration::from_millis(5)));
        let kind = other.receive().err().unwrap().kind();
        assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind:?}");
    }
}
