//! The client. It reads orders, one a line, and answers each with a line of JSON:
//!
//! ```text
//! stream DOOR down|up COUNT SECONDS   bytes over COUNT connections
//! set-up DOOR COUNT SECONDS           connections one after another, COUNT of such rows at once
//! hold DOOR COUNT                     COUNT connections that stay
//! drop                                and go
//! ```
//!
//! A DOOR is `direct:ADDRESS`, `name:HOST:PORT` (resolved as any program does, once), `connect:HOST:PORT` or
//! `socks:HOST:PORT` (through the proxy of the jail).

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::LocalSet;

use crate::{BLOCK, order};

const PROXY: &str = "127.0.0.1:3128";

/// What flows before it is counted.
const WARM_UP: Duration = Duration::from_millis(200);

/// Connections that are begun at once where many are held.
const AT_ONCE: usize = 64;

/// Reads orders until there are none.
pub async fn serve() {
    let mut held = Vec::new();
    for line in io::stdin().lines() {
        let line = line.expect("an order");
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words.as_slice() {
            ["stream", door, direction, count, seconds] => {
                let (count, time) = (count.parse().unwrap(), time(seconds));
                LocalSet::new().run_until(stream(Door::new(door), *direction == "up", count, time)).await
            }
            ["set-up", door, count, seconds] => {
                let (count, time) = (count.parse().unwrap(), time(seconds));
                LocalSet::new().run_until(set_up(Door::new(door), count, time)).await
            }
            ["hold", door, count] => {
                let wanted: usize = count.parse().unwrap();
                let door = Door::new(door);
                LocalSet::new().run_until(hold(&door, wanted, &mut held)).await
            }
            ["drop"] => {
                held.clear();
                json!({"held": 0})
            }
            _ => panic!("not an order: {line}"),
        };
        println!("{answer}");
    }
}

fn time(seconds: &str) -> Duration {
    Duration::from_secs_f64(seconds.parse().expect("seconds"))
}

/// A way to the server.
#[derive(Clone)]
struct Door {
    address: SocketAddr,
    /// What is asked for there.
    asks: Option<Asks>,
}

#[derive(Clone)]
enum Asks {
    Connect(String),
    Socks(String, u16),
}

impl Door {
    fn new(text: &str) -> Self {
        let (kind, target) = text.split_once(':').expect("a door");
        let (host, port) = target.rsplit_once(':').expect("a port");
        let asks = match kind {
            "connect" => Some(Asks::Connect(target.to_owned())),
            "socks" => Some(Asks::Socks(host.to_owned(), port.parse().expect("a port"))),
            _ => None,
        };
        let address = if asks.is_some() { PROXY } else { target };
        let address =
            address.to_socket_addrs().expect("resolve").find(SocketAddr::is_ipv4).expect("an address");
        Self { address, asks }
    }

    /// A connection to the server.
    async fn open(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        match &self.asks {
            None => {}
            Some(Asks::Connect(target)) => {
                let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
                stream.write_all(request.as_bytes()).await?;
                let (mut answer, mut length) = ([0; 256], 0);
                while !answer[..length].ends_with(b"\r\n\r\n") {
                    match stream.read(&mut answer[length..]).await? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        count => length += count,
                    }
                }
                if !answer.starts_with(b"HTTP/1.1 200 ") {
                    return Err(io::Error::other(String::from_utf8_lossy(&answer[..length]).into_owned()));
                }
            }
            Some(Asks::Socks(host, port)) => {
                stream.write_all(&[5, 1, 0]).await?;
                stream.read_exact(&mut [0; 2]).await?;
                let name = [&[5, 1, 0, 3, host.len() as u8], host.as_bytes(), &port.to_be_bytes()].concat();
                stream.write_all(&name).await?;
                let mut answer = [0; 10];
                stream.read_exact(&mut answer).await?;
                if answer[1] != 0 {
                    return Err(io::Error::other(format!("SOCKS answer {}", answer[1])));
                }
            }
        }
        Ok(stream)
    }

    /// A connection that the server has answered on.
    async fn answered(&self, order: u8) -> io::Result<TcpStream> {
        let mut stream = self.open().await?;
        stream.write_u8(order).await?;
        stream.read_u8().await?;
        Ok(stream)
    }
}

/// What the tasks of a measurement share.
struct Shared {
    start: Barrier,
    counted: Cell<u64>,
    counting: Cell<bool>,
    ended: Cell<bool>,
}

async fn stream(door: Door, up: bool, count: usize, time: Duration) -> Value {
    let shared = Rc::new(Shared {
        start: Barrier::new(count + 1),
        counted: Cell::new(0),
        counting: Cell::new(false),
        ended: Cell::new(false),
    });
    let one = |shared: Rc<Shared>, mut stream: TcpStream| async move {
        stream.write_u8(if up { order::TAKE } else { order::SEND }).await.expect("an order");
        shared.start.wait().await;
        let mut buffer = vec![0; BLOCK];
        while !shared.ended.get() {
            let moved = if up { stream.write(&buffer).await } else { stream.read(&mut buffer).await };
            let moved = moved.expect("bytes");
            assert!(moved > 0, "the stream has ended");
            if shared.counting.get() {
                shared.counted.set(shared.counted.get() + moved as u64);
            }
            tokio::task::coop::consume_budget().await;
        }
        if up {
            // What was written has to have arrived.
            stream.shutdown().await.expect("the end");
            stream.read_u64().await.expect("the number of bytes");
        }
    };
    let mut tasks = Vec::new();
    for _ in 0..count {
        let stream = door.open().await.expect("a connection");
        tasks.push(tokio::task::spawn_local(one(Rc::clone(&shared), stream)));
    }
    shared.start.wait().await;
    tokio::time::sleep(WARM_UP).await;
    shared.counting.set(true);
    let begun = Instant::now();
    tokio::time::sleep(time).await;
    let spent = begun.elapsed();
    shared.counting.set(false);
    shared.ended.set(true);
    for task in tasks {
        task.await.expect("a stream");
    }
    json!({"bytes": shared.counted.get(), "seconds": spent.as_secs_f64()})
}

async fn set_up(door: Door, count: usize, time: Duration) -> Value {
    let taken = Rc::new(RefCell::new(Vec::new()));
    let begun = Instant::now();
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let (door, taken) = (door.clone(), Rc::clone(&taken));
            tokio::task::spawn_local(async move {
                while begun.elapsed() < time {
                    let start = Instant::now();
                    let mut stream = door.answered(order::ANSWER).await.expect("a connection");
                    taken.borrow_mut().push(start.elapsed());
                    assert!(stream.read_u8().await.is_err(), "more than one byte");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a row of connections");
    }
    let spent = begun.elapsed();
    let mut taken = taken.take();
    taken.sort_unstable();
    let at = |part: f64| taken[((taken.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    json!({"count": taken.len(), "seconds": spent.as_secs_f64(), "p50": at(0.5), "p99": at(0.99)})
}

async fn hold(door: &Door, wanted: usize, held: &mut Vec<TcpStream>) -> Value {
    let mut why = Value::Null;
    while held.len() < wanted && why.is_null() {
        let more = AT_ONCE.min(wanted - held.len());
        let tasks: Vec<_> = (0..more)
            .map(|_| {
                let door = door.clone();
                tokio::task::spawn_local(async move { door.answered(order::STAY).await })
            })
            .collect();
        for task in tasks {
            match task.await.expect("a connection") {
                Ok(stream) => held.push(stream),
                Err(error) => why = json!(error.to_string()),
            }
        }
    }
    json!({"held": held.len(), "why": why})
}
