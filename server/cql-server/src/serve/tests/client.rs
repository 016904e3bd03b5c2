//! A client of the protocol on a stream of bytes.

use ebb_cql::protocol::{Coding, Direction, FrameDecoder, PAYLOAD_BYTES_MAX, flag};

use super::*;

pub(super) fn parameters() -> QueryParameters<'static> {
    QueryParameters::default()
}

/// Returns a QUERY with this text, whose body is compressed if `coding` has a compression.
pub(super) fn encoded(stream: i16, text: &str, coding: impl Into<Coding>) -> BytesMut {
    let mut frame = BytesMut::new();
    let parameters = parameters();
    Request::Query { text, parameters }.encode(&mut frame, stream, coding);
    frame
}

pub(super) struct Client<T = TcpStream> {
    pub(super) stream: T,
    pub(super) version: Version,
    /// The segments that carry frames; `None` for frames without segments.
    pub(super) segments: Option<Segments>,
    pub(super) sealed: BytesMut,
    pub(super) frames: BytesMut,
}

impl Client {
    pub(super) fn raw(server: &CqlServer) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        Self::over(stream)
    }

    pub(super) fn new(server: &CqlServer) -> Self {
        Self::raw(server).started()
    }
}

impl<T: Read + Write> Client<T> {
    pub(super) fn over(stream: T) -> Self {
        Self {
            stream,
            version: Version::V4,
            segments: None,
            sealed: BytesMut::new(),
            frames: BytesMut::new(),
        }
    }

    pub(super) fn started(mut self) -> Self {
        let options = vec![("CQL_VERSION", "3.4.6")];
        self.send(0, &Request::Startup(Startup { options }));
        assert_eq!(self.response(), Response::Ready);
        self
    }

    /// Sends STARTUP. Returns `None` if the server closes the connection instead of responding.
    pub(super) fn try_started(mut self) -> Option<Self> {
        let options = vec![("CQL_VERSION", "3.4.6")];
        self.try_send(0, &Request::Startup(Startup { options }))
            .ok()?;
        let (_, answer) = self.next_answer().ok()??;
        assert_eq!(answer.response, Response::Ready);
        Some(self)
    }

    pub(super) fn send(&mut self, stream: i16, request: &Request<'_>) {
        self.try_send(stream, request).unwrap();
    }

    pub(super) fn try_send(&mut self, stream: i16, request: &Request<'_>) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        request.encode(&mut bytes, stream, self.version);
        if let Some(segments) = self.segments {
            let frames = std::mem::take(&mut bytes);
            segments.seal(&frames, &mut bytes);
        }
        self.stream.write_all(&bytes)
    }

    pub(super) fn query(&mut self, stream: i16, text: &str) {
        let parameters = parameters();
        self.send(stream, &Request::Query { text, parameters });
    }

    /// Returns the next response; `None` if the connection has ended.
    pub(super) fn try_receive(&mut self) -> Option<(i16, Answer)> {
        match self.next_answer() {
            Ok(answer) => answer,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads the next response; `None` at the end of the stream.
    pub(super) fn next_answer(&mut self) -> io::Result<Option<(i16, Answer)>> {
        let mut decoder = FrameDecoder::new(Direction::Response, 16 << 20);
        decoder.set_version(self.version);
        loop {
            if let Some(frame) = decoder.decode(&mut self.frames).unwrap() {
                return Ok(Some((frame.stream, Answer::decode(&frame).unwrap())));
            }
            if let Some(segments) = self.segments
                && (segments.open(&mut self.sealed, &mut self.frames, PAYLOAD_BYTES_MAX))
                    .unwrap()
                    .is_some()
            {
                continue;
            }
            let received = match self.segments {
                None => &mut self.frames,
                Some(_) => &mut self.sealed,
            };
            let mut some = [0; 4096];
            match wait::uninterrupted(|| self.stream.read(&mut some))? {
                0 => return Ok(None),
                read => received.extend_from_slice(&some[..read]),
            }
        }
    }

    pub(super) fn receive(&mut self) -> (i16, Answer) {
        self.try_receive().expect("the connection is open")
    }

    /// Returns the next response, whichever request it answers.
    pub(super) fn response(&mut self) -> Response {
        self.receive().1.response
    }

    /// Returns the streams of the next `count` responses, ascending.
    pub(super) fn streams(&mut self, count: usize) -> Vec<i16> {
        let mut streams: Vec<_> = (0..count).map(|_| self.receive().0).collect();
        streams.sort_unstable();
        streams
    }

    /// Returns the responses to the requests with the streams 1 and 2.
    #[track_caller]
    pub(super) fn in_order(&mut self) -> [Answer; 2] {
        let mut answers = [self.receive(), self.receive()];
        answers.sort_by_key(|(stream, _)| *stream);
        assert_eq!([answers[0].0, answers[1].0], [1, 2]);
        answers.map(|(_, answer)| answer)
    }

    /// Sends a request with the flag for tracing, and returns the response.
    pub(super) fn traced(&mut self, request: &Request<'_>) -> Answer {
        let mut bytes = BytesMut::new();
        request.encode(&mut bytes, 5, self.version);
        bytes[1] |= flag::TRACING;
        self.stream.write_all(&bytes).unwrap();
        self.receive().1
    }

    /// Sends a short statement, and asserts that the next response answers it.
    #[track_caller]
    pub(super) fn assert_served(&mut self, stream: i16) {
        self.query(stream, "which");
        assert_eq!(self.receive().0, stream);
    }

    /// Registers the client for the events of schema changes.
    pub(super) fn register(&mut self) {
        let events = EventTypes {
            schema: true,
            ..EventTypes::default()
        };
        self.send(1, &Request::Register(events));
        assert_eq!(self.response(), Response::Ready);
    }

    pub(super) fn error(&mut self) -> ErrorResponse {
        match self.response() {
            Response::Error(error) => error,
            other => panic!("{other:?} is no error"),
        }
    }
}
