# cause: a name server does not answer; poll times out twice
# size: 2 s
# ask: record -- $0
# who: 127.0.0.9:53
# says: nothing came
# never: sleeping
# json: segments call=poll object.name~127.0.0.9:53
import select, socket
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.9", 53))
asked.connect(("127.0.0.9", 53))
answers = select.poll()
answers.register(asked, select.POLLIN)
for attempt in range(2):
    asked.send(b"example.org?")
    answers.poll(1000)
