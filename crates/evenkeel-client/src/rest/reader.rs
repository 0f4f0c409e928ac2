//! [`Reader`]: everything that comes back goes through here.

use std::sync::Arc;

use evenkeel_core::ResourceInfo;
use evenkeel_core::codec::{Codec, ListDecoder, WatchDecoder};
use http::{Response, response};

use super::answer::Answer;
use super::failure::{Target, nonsense, refusal};
use super::list_stream::ListStream;
use super::media::{Codecs, MediaError};
use super::reading::Reading;
use super::refusals::{Distrust, Refusals};
use super::stream::{ByteStream, List, WatchStream};
use super::warnings::{self, WarningHandler};
use crate::config::Limits;
use crate::error::{CallName, Error};
use crate::transport::Body;

/// Makes sense of what comes back to one call.
///
/// One rule for all: 2xx is a success, everything else an error. Warnings are delivered once, when it is clear that the
/// answer is in a form that we read: else it is not the API server that warns.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    /// The call.
    pub(super) call: &'a CallName,
    /// Whom it went to.
    pub(super) host: &'a str,
    /// What it is about.
    pub(super) target: &'a Target,
    /// What can be read.
    pub(super) codecs: Codecs,
    /// What is known of servers that do not speak protobuf.
    pub(super) refusals: &'a Arc<Refusals>,
    /// How much of it.
    pub(super) limits: &'a Limits,
    /// Who hears the warnings: whom the request names, else whom the client names, else everybody's.
    pub(super) warnings: [Option<&'a Arc<dyn WarningHandler>>; 2],
}

impl Reader<'_> {
    /// Reads one answer to its end.
    pub(super) async fn answer(self, response: Response<Body>) -> Result<Answer, Error> {
        let (head, body) = self.success(response).await?;
        let codec = match self.codecs.of_answer(&head.headers) {
            Err(malformed @ MediaError::Malformed(_)) => return Err(nonsense(self.call, &malformed)),
            codec => codec,
        };
        self.warn(&head);
        let body = self.reading(body).whole(self.limits.object).await?;
        let distrust = codec.as_ref().ok().and_then(|codec| self.distrust(*codec));
        Ok(Answer::new(self.call.clone(), head, body, codec, self.target.is_part(), distrust))
    }

    /// Reads a list, item by item as it comes in, and tells how many bytes it had. One item that is no object fails all
    /// of it.
    pub(super) async fn list<K>(
        self,
        info: &Arc<ResourceInfo>,
        response: Response<Body>,
    ) -> Result<(List<K>, usize), Error> {
        let (head, body) = self.success(response).await?;
        let codec = self.codec(&head, self.codecs.of_answer(&head.headers))?;
        let distrust = self.distrust(codec);
        let unreadable = |source| {
            Distrust::look_at_stream(distrust.as_ref(), &source);
            Error::Stream { call: self.call.clone(), source }
        };
        let mut decoder = ListDecoder::<K>::new(codec, Arc::clone(info)).max_item_bytes(self.limits.frame);
        let mut items = Vec::new();
        let mut reading = self.reading(body);
        while let Some(chunk) = reading.chunk(self.limits.list).await? {
            decoder.push(chunk);
            while let Some(item) = decoder.next_item().map_err(unreadable)? {
                items.push(item);
            }
        }
        let received = reading.received();
        if received == 0 {
            let problem = format!("0-length body instead of a list of {}", info.kind());
            return Err(Error::Unreadable { call: self.call.clone(), problem });
        }
        let meta = decoder.finish().map_err(|source| {
            Distrust::look_at_end(distrust.as_ref(), &source);
            Error::Stream { call: self.call.clone(), source }
        })?;
        Ok((List { items, meta }, received))
    }

    /// Begins to read a list whose items are handed out as they come in.
    pub(super) async fn list_stream<K>(
        self,
        info: &Arc<ResourceInfo>,
        response: Response<Body>,
    ) -> Result<ListStream<K>, Error> {
        let (head, body) = self.success(response).await?;
        let codec = self.codec(&head, self.codecs.of_answer(&head.headers))?;
        let decoder = ListDecoder::new(codec, Arc::clone(info)).max_item_bytes(self.limits.frame);
        Ok(ListStream::new(self.call, self.host, decoder, body, self.limits.list, self.distrust(codec)))
    }

    /// Begins to read a watch.
    pub(super) async fn watch<K>(
        self,
        info: &Arc<ResourceInfo>,
        response: Response<Body>,
    ) -> Result<WatchStream<K>, Error> {
        let (head, body) = self.success(response).await?;
        let codec = self.codec(&head, self.codecs.of_watch(&head.headers))?;
        let decoder = WatchDecoder::new(codec, Arc::clone(info)).max_event_bytes(self.limits.frame);
        Ok(WatchStream::new(self.call.clone(), decoder, body, self.distrust(codec)))
    }

    /// Begins to read bytes, whatever they are.
    pub(super) async fn stream(self, response: Response<Body>) -> Result<ByteStream, Error> {
        let (head, body) = self.success(response).await?;
        self.warn(&head);
        Ok(ByteStream::new(self.call.clone(), body))
    }

    /// The error for an answer that is no success, of whose body this much has been read.
    pub(super) fn refusal(self, head: &response::Parts, body: &[u8]) -> Error {
        refusal(self.call, self.target, &self.codecs, head, body)
    }

    /// The answer if it is a success. Of one that is not, no more is read than is wanted of an error.
    async fn success(self, response: Response<Body>) -> Result<(response::Parts, Body), Error> {
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok((head, body));
        }
        let body = self.reading(body).beginning(self.limits.error).await?;
        if self.codecs.of_answer(&head.headers).is_ok() {
            self.warn(&head);
        }
        Err(self.refusal(&head, &body))
    }

    /// The codec of a success, if there is one: without it the answer is of no use.
    fn codec(self, head: &response::Parts, codec: Result<Codec, MediaError>) -> Result<Codec, Error> {
        match codec {
            Ok(codec) => {
                self.warn(head);
                Ok(codec)
            }
            Err(malformed @ MediaError::Malformed(_)) => Err(nonsense(self.call, &malformed)),
            Err(unknown) => Err(Error::Unreadable { call: self.call.clone(), problem: unknown.to_string() }),
        }
    }

    /// Who is told if what this codec reads turns out to be no protobuf that we know.
    fn distrust(self, codec: Codec) -> Option<Distrust> {
        let is_protobuf = codec != Codec::Json;
        // What is behind a proxy, or at a path that says nothing of its group, tells nothing of the API server.
        let is_of_group = !self.target.resource.is_empty() && &*self.target.subresource != "proxy";
        (is_protobuf && is_of_group).then(|| Distrust::new(self.refusals, &self.target.group))
    }

    fn warn(self, head: &response::Parts) {
        warnings::deliver(&head.headers, self.warnings);
    }
}

impl<'a> Reader<'a> {
    fn reading(self, body: Body) -> Reading<'a> {
        Reading::new(self.call, self.host, body)
    }
}

#[cfg(test)]
mod tests;
