//! Decompression of gzip.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

/// The number of compressed bytes per read.
const READ_BYTES: usize = 64 << 10;

/// The error of damaged compressed text. The content of the file is the cause, not the disk.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct DamagedGzip(&'static str);

/// Returns the text in `packed`, a gzip file of one or more members.
pub fn gunzip<R: Read>(packed: R) -> impl Read + use<R> {
    let packed = BufReader::with_capacity(READ_BYTES, packed);
    Gunzip(MultiGzDecoder::new(packed))
}

struct Gunzip<R>(MultiGzDecoder<BufReader<R>>);

impl<R: Read> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The system does not return errors of these kinds for files, pipes or terminals.
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                damaged("the gzip file is cut off, or something short follows it: copy it again")
            }
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                damaged("the gzip file is damaged, or something else follows it")
            }
            _ => error,
        })
    }
}

fn damaged(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, DamagedGzip(problem))
}

/// Returns the message if `error` is about damaged compressed text; otherwise `None`.
pub(super) fn problem_of(error: &io::Error) -> Option<String> {
    let damaged = error.get_ref()?.downcast_ref::<DamagedGzip>()?;
    Some(damaged.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    fn unpacked(packed: &[u8]) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        match gunzip(packed).read_to_end(&mut text) {
            Ok(_) => Ok(text),
            Err(error) => Err(problem_of(&error).expect("the content is at fault")),
        }
    }

    #[test]
    fn all_members_are_unpacked_and_cut_or_damaged_ones_are_an_error() {
        let packed = [gzip(b"one\n"), gzip(b"two\n")].concat();
        assert_eq!(unpacked(&packed).unwrap(), b"one\ntwo\n");
        for cut in 1..packed.len() {
            let problem = unpacked(&packed[..cut]);
            if cut == gzip(b"one\n").len() {
                assert_eq!(problem.unwrap(), b"one\n");
            } else {
                assert!(problem.unwrap_err().contains("cut off"), "at {cut}");
            }
        }
        let problem = unpacked(&[&packed[..], b"rubbish, long enough"].concat());
        assert!(problem.unwrap_err().contains("damaged"));
        // What follows is shorter than the header of a member.
        let problem = unpacked(&[&packed[..], b"rubbish"].concat());
        assert!(problem.unwrap_err().contains("something short follows"));
        let mut flipped = gzip(&b"some text\n".repeat(100));
        let crc = flipped.len() - 6;
        flipped[crc] ^= 1;
        assert!(unpacked(&flipped).unwrap_err().contains("damaged"));
    }
}
