//! The blocking client, with a server of a few lines.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use bytes::BytesMut;
use ebb_cql::client::{Client, ClientError, set_stream};
use ebb_cql::protocol::{
    BODY_BYTES_MAX_DEFAULT, Compression, Direction, ErrorKind, ErrorResponse, FrameDecoder, Head,
    Request, Response,
};

/// Starts a server that responds to PREPARE with the text as the name of a keyspace, or with an
/// error if the text is empty. It responds to the requests of one read in reverse order.
fn serve(compression: Compression) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut decoder = FrameDecoder::new(Direction::Request, BODY_BYTES_MAX_DEFAULT);
        let (mut buffer, mut piece) = (BytesMut::new(), [0; 4096]);
        loop {
            let read = socket.read(&mut piece).unwrap_or(0);
            if read == 0 {
                return;
            }
            buffer.extend_from_slice(&piece[..read]);
            let mut answers = Vec::new();
            while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                let response = match Request::decode(&frame).unwrap() {
                    Request::Startup(startup) => {
                        let requested = startup.compression().and_then(Compression::from_name);
                        assert_eq!(requested.unwrap_or_default(), compression);
                        decoder.set_compression(compression);
                        Response::Ready
                    }
                    Request::Prepare {
                        text: "",
                        keyspace: None,
                    } => Response::Error(ErrorResponse::syntax("no text")),
                    Request::Prepare {
                        text,
                        keyspace: None,
                    } => Response::SetKeyspace {
                        keyspace: text.to_owned(),
                    },
                    other => panic!("{other:?}"),
                };
                answers.push((frame.stream, response));
            }
            for (stream, response) in answers.iter().rev() {
                let mut out = BytesMut::new();
                response.encode(&mut out, *stream, &Head::default(), compression);
                // In two pieces: a frame may arrive in parts.
                let (first, second) = out.split_at(out.len() / 2);
                socket.write_all(first).unwrap();
                socket.write_all(second).unwrap();
            }
        }
    });
    address
}

#[test]
fn responses_find_their_requests() {
    for compression in [Compression::None, Compression::Lz4] {
        let mut client = Client::connect(serve(compression), compression).unwrap();
        let long = "a long name ".repeat(100);
        let answer = client
            .request(&Request::Prepare {
                text: &long,
                keyspace: None,
            })
            .unwrap();
        assert_eq!(answer, Response::SetKeyspace { keyspace: long });
        let refused = client.request(&Request::Prepare {
            text: "",
            keyspace: None,
        });
        match refused {
            Err(ClientError::Refused(error)) => assert_eq!(error.kind, ErrorKind::Syntax),
            other => panic!("{other:?}"),
        }

        // Two in flight, from one encoded frame.
        let mut frame = BytesMut::new();
        Request::Prepare {
            text: "x",
            keyspace: None,
        }
        .encode(&mut frame, 0, Compression::None);
        let mut both = Vec::new();
        for stream in [5, 32_767] {
            set_stream(&mut frame, stream);
            both.extend_from_slice(&frame);
        }
        client.send(&both).unwrap();
        let mut streams = [0; 2].map(|_| client.receive().unwrap().stream);
        streams.sort();
        assert_eq!(streams, [5, 32_767]);
    }
}
