//! Answers over HTTP/2 that no host of good will makes.

use super::*;

#[tokio::test]
async fn an_answer_that_cannot_be_searched_is_not_passed_on() {
    let world = ca();
    let addr = secure(&world, HOST, Alpn::Http2, |stream| async move {
        let service = service_fn(|request: Request<Incoming>| async move {
            let mut response = Response::new(Full::new(Bytes::from(format!("<{VALUE}>"))));
            response.headers_mut().insert("set-cookie", format!("a={VALUE}; Path=/").parse().unwrap());
            response.headers_mut().append("set-cookie", format!("b={VALUE}").parse().unwrap());
            response.headers_mut().insert("location", format!("https://a/{VALUE}").parse().unwrap());
            for coding in request.headers().get_all("x-coding") {
                response.headers_mut().append("content-encoding", coding.clone());
            }
            Ok::<_, Infallible>(response)
        });
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service)
            .await;
    })
    .await;
    let read = read(addr, &world);
    let mut sender = h2(&read).await;
    for (codings, passes) in [
        (&[][..], true),
        (&["identity"], true),
        (&["gzip"], false),
        (&["GZIP"], false),
        (&["identity, br"], false),
        (&["identity", "zstd"], false),
        (&["any"], false),
        (&[""], true),
        (&["none", "identity, identity"], true),
    ] {
        let mut request = Request::get("https://api.test/").body(Full::default()).unwrap();
        for coding in codings {
            request.headers_mut().append("x-coding", coding.parse().unwrap());
        }
        let response = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        let (parts, body) = response.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        if passes {
            let cookies: Vec<_> = parts.headers.get_all("set-cookie").iter().collect();
            let fake = &read.fake;
            assert_eq!((parts.status.as_u16(), body), (200, format!("<{fake}>")));
            assert_eq!(cookies, [format!("a={fake}; Path=/").as_str(), format!("b={fake}").as_str()]);
            assert_eq!(parts.headers["location"], format!("https://a/{fake}"));
        } else {
            assert_eq!(parts.status.as_u16(), 502, "{codings:?}");
            assert!(body.contains("compressed"), "{codings:?}: {body}");
            assert!(!format!("{:?}", parts.headers).contains(VALUE), "{codings:?}: {:?}", parts.headers);
        }
    }
    let told = format!("{:?}", read.jail.seen.events.lock().unwrap());
    assert!(!told.contains(VALUE), "{told}");
}
