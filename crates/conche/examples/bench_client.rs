//! The client that `cargo xtask bench-peers` has conche be; its arguments and its answer are in bench/peers/README.md.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use conche::{Client, Uri};
use tokio::task::LocalSet;
use tokio::time::sleep;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, destinations, warm_up, seconds] = &arguments[..] else {
        return Err("a port, a number of destinations, and two times are expected".into());
    };
    let (port, destinations): (u16, u16) = (port.parse()?, destinations.parse()?);
    let (warm_up, seconds) =
        (warm_up.parse().map(Duration::from_secs_f64)?, seconds.parse().map(Duration::from_secs_f64)?);
    let client = Client::new();
    let answered = Rc::new(Cell::new(0u64));
    let tasks = LocalSet::new();
    for destination in 0..destinations {
        let uri: Uri =
            format!("coap://127.0.0.1:{}/test", port.checked_add(destination).ok_or("too many ports")?).parse()?;
        let (client, answered) = (client.clone(), Rc::clone(&answered));
        tasks.spawn_local(async move {
            loop {
                if let Ok(response) = client.get(uri.clone()).await
                    && response.payload().len() == 60
                {
                    answered.set(answered.get() + 1);
                }
            }
        });
    }
    let count = tasks.run_until(async {
        sleep(warm_up).await;
        let before = answered.get();
        sleep(seconds).await;
        answered.get() - before
    });
    println!("answered {}", count.await);
    Ok(())
}
