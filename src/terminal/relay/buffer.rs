//! Bytes on their way.

/// A queue of bytes that is filled at the end and emptied from the front.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Where new bytes are appended.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.start);
        self.start = 0;
        &mut self.bytes
    }

    /// Forgets the first `count` bytes.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }
}
