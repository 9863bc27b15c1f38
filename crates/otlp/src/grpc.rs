//! gRPC: framing, compression and status are `tonic`'s; a message stays bytes.

use std::future::{Ready, ready};

use http_body_util::Full;
use hyper::Response;
use hyper::body::{Buf as _, Bytes};
use tonic::body::Body;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Status};

use crate::message::MAX_MESSAGE_BYTES;

/// Answers a request whose body has arrived: `answer` gets its decompressed message.
pub(crate) async fn answer(
    request: hyper::Request<Full<Bytes>>,
    answer: impl FnMut(Bytes) -> Result<Vec<u8>, Status>,
) -> Response<Body> {
    let mut grpc = Grpc::new(Raw)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    grpc.unary(Unary(answer), request).await
}

struct Unary<F>(F);

impl<F: FnMut(Bytes) -> Result<Vec<u8>, Status>> UnaryService<Bytes> for Unary<F> {
    type Response = Vec<u8>;
    type Future = Ready<Result<tonic::Response<Vec<u8>>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(tonic::Response::new))
    }
}

/// Messages as bytes.
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        use prost::bytes::BufMut as _;
        out.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
