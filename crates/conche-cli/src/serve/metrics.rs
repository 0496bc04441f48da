//! `conche serve --metrics`: OpenMetrics text over HTTP.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use conche::Server;
use conche::metrics::CONTENT_TYPE;
use tokio::net::TcpListener;

use crate::http::{self, Response};

/// Maximum number of listed destinations: the busiest ones.
const DESTINATIONS: usize = 32;

pub struct Exporter(Option<TcpListener>);

impl Exporter {
    pub async fn bind(address: Option<&str>) -> anyhow::Result<Self> {
        let Some(address) = address else { return Ok(Self(None)) };
        http::listen(address).await.map(|listener| Self(Some(listener)))
    }

    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.as_ref()?.local_addr().ok()
    }

    /// Answers requests of any kind. Does not query the endpoint without one.
    pub async fn run(&self, server: &Arc<Server>) -> Infallible {
        let Some(listener) = &self.0 else { return pending().await };
        let server = Arc::clone(server);
        let answer = move |_| {
            let server = Arc::clone(&server);
            async move { Response::ok(CONTENT_TYPE, server.metrics(DESTINATIONS).await.into_bytes()) }
        };
        http::serve(listener, answer).await
    }
}
