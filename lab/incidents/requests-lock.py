# cause: a request waits for a lock that another request's thread holds while it sleeps; the first one's spans say no more than its length
# size: 600 ms
# ask: record --otlp -- $0
# ask: requests --slowest 1
# who: PUT-stock
# says: was blocked by
# never: running
# json: blocked_by operation=PUT-stock
# json: states state=blocked_by_request
import json, os, threading, time, urllib.request
twin = "TWIN" in os.environ
lock, held, spans = threading.Lock(), threading.Event(), []
def request(name, work):
    began, tid = time.time_ns(), threading.get_native_id()
    work()
    number = len(spans) + 1
    spans.append({"traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": name, "kind": 2,
                  "startTimeUnixNano": str(began), "endTimeUnixNano": str(time.time_ns()),
                  "attributes": [{"key": "wakepath.tid", "value": {"intValue": str(tid)}}]})
def stock():
    with lock:
        held.set()
        time.sleep(0 if twin else 0.6)
def cart():
    began = time.monotonic()
    with lock:
        pass
    with open(os.environ["PLANTED"], "a") as planted:
        print("twin", time.monotonic() - began, file=planted)
    time.sleep(0.7 if twin else 0.1)
holder = threading.Thread(target=request, args=("PUT-stock", stock))
holder.start()
held.wait()
waiter = threading.Thread(target=request, args=("GET-cart", cart))
waiter.start()
holder.join()
waiter.join()
service = [{"key": "service.name", "value": {"stringValue": "shop"}}]
body = {"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]}
urllib.request.urlopen(urllib.request.Request(
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces", json.dumps(body).encode(),
    {"Content-Type": "application/json"})).read()
