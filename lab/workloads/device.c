/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Network devices, by ioctl and rtnetlink. See device.h. */
#define _GNU_SOURCE
#include "device.h"
#include "truth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int device_tun(void)
{
	struct ifreq request = { .ifr_name = DEVICE, .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request))
		die("cannot make a TUN device");
	return fd;
}

static int control(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("cannot make a socket");
	return fd;
}

void device_up(const char *text)
{
	int fd = control();
	struct ifreq request = { .ifr_name = DEVICE };
	struct sockaddr_in address = { .sin_family = AF_INET }, mask = address;
	inet_pton(AF_INET, text, &address.sin_addr);
	inet_pton(AF_INET, "255.255.255.0", &mask.sin_addr);
	/* So much waits in a TUN device while whoever reads it has no CPU. */
	request.ifr_qlen = 4096;
	bool done = !ioctl(fd, SIOCSIFTXQLEN, &request);
	memcpy(&request.ifr_addr, &address, sizeof address);
	done = done && !ioctl(fd, SIOCSIFADDR, &request);
	memcpy(&request.ifr_netmask, &mask, sizeof mask);
	done = done && !ioctl(fd, SIOCSIFNETMASK, &request);
	done = done && !ioctl(fd, SIOCGIFFLAGS, &request);
	request.ifr_flags |= IFF_UP;
	if (!done || ioctl(fd, SIOCSIFFLAGS, &request))
		die("cannot set up a network device");
	close(fd);
}

/* A request of rtnetlink. */
struct message {
	struct nlmsghdr head;
	char body[1024];
};

static void *append(struct message *message, size_t size)
{
	void *at = (char *)message + NLMSG_ALIGN(message->head.nlmsg_len);
	message->head.nlmsg_len = (unsigned)(NLMSG_ALIGN(message->head.nlmsg_len) + size);
	return at;
}

static void begin(struct message *message, int type, int flags)
{
	memset(message, 0, sizeof *message);
	message->head.nlmsg_len = NLMSG_LENGTH(0);
	message->head.nlmsg_type = (unsigned short)type;
	message->head.nlmsg_flags = (unsigned short)(NLM_F_REQUEST | NLM_F_ACK | flags);
}

/* An attribute; without data, a nest for the next attributes until it is closed. */
static struct rtattr *attribute(struct message *message, int type, const void *data, size_t size)
{
	struct rtattr *attribute = append(message, RTA_LENGTH(size));
	attribute->rta_type = (unsigned short)type;
	attribute->rta_len = (unsigned short)RTA_LENGTH(size);
	if (size)
		memcpy(RTA_DATA(attribute), data, size);
	return attribute;
}

static void close_attribute(const struct message *message, struct rtattr *attribute)
{
	attribute->rta_len = (unsigned short)((const char *)message + message->head.nlmsg_len - (char *)attribute);
}

static void ask(const struct message *message, const char *what)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char more[1024];
	} answer;
	if (fd < 0 || send(fd, message, message->head.nlmsg_len, 0) < 0 || recv(fd, &answer, sizeof answer, 0) < 0)
		die(what);
	close(fd);
	if (answer.head.nlmsg_type == NLMSG_ERROR && answer.error.error) {
		errno = -answer.error.error;
		die(what);
	}
}

/* The addresses of a pair: of this end and of the other. Local ones, like those that the kernel draws. */
static const unsigned char hardware[2][6] = { { 2, 0, 0, 0, 0, 1 }, { 2, 0, 0, 0, 0, 2 } };

void device_neighbour(const char *address, bool other_end)
{
	int fd = control();
	struct arpreq request = { .arp_flags = ATF_COM | ATF_PERM, .arp_dev = DEVICE };
	struct sockaddr_in neighbour = { .sin_family = AF_INET };
	inet_pton(AF_INET, address, &neighbour.sin_addr);
	memcpy(&request.arp_pa, &neighbour, sizeof neighbour);
	request.arp_ha.sa_family = ARPHRD_ETHER;
	memcpy(request.arp_ha.sa_data, hardware[other_end], sizeof hardware[other_end]);
	if (ioctl(fd, SIOCSARP, &request))
		die("cannot say who a device's neighbour is");
	close(fd);
}

void device_pair(int other_namespace)
{
	struct message message;
	begin(&message, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	append(&message, sizeof(struct ifinfomsg));
	attribute(&message, IFLA_IFNAME, DEVICE, sizeof DEVICE);
	attribute(&message, IFLA_ADDRESS, hardware[0], sizeof hardware[0]);
	struct rtattr *info = attribute(&message, IFLA_LINKINFO, NULL, 0);
	attribute(&message, IFLA_INFO_KIND, "veth", 4);
	struct rtattr *data = attribute(&message, IFLA_INFO_DATA, NULL, 0);
	struct rtattr *peer = attribute(&message, VETH_INFO_PEER, NULL, 0);
	append(&message, sizeof(struct ifinfomsg));
	attribute(&message, IFLA_IFNAME, DEVICE, sizeof DEVICE);
	attribute(&message, IFLA_ADDRESS, hardware[1], sizeof hardware[1]);
	attribute(&message, IFLA_NET_NS_FD, &other_namespace, sizeof other_namespace);
	close_attribute(&message, peer);
	close_attribute(&message, data);
	close_attribute(&message, info);
	ask(&message, "cannot make a pair of network devices (veth)");
}

void device_limit(long mbit)
{
	/* The bucket holds a few packets; the queue, more than TCP has under way. */
	unsigned burst = 16 << 10;
	struct tc_tbf_qopt options = {
		.rate = { .rate = (unsigned)(mbit * 125000), .linklayer = TC_LINKLAYER_ETHERNET },
		.limit = 4 << 20,
	};
	struct message message;
	begin(&message, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE);
	struct tcmsg *device = append(&message, sizeof *device);
	device->tcm_ifindex = (int)if_nametoindex(DEVICE);
	device->tcm_parent = TC_H_ROOT;
	attribute(&message, TCA_KIND, "tbf", sizeof "tbf");
	struct rtattr *all = attribute(&message, TCA_OPTIONS, NULL, 0);
	attribute(&message, TCA_TBF_PARMS, &options, sizeof options);
	attribute(&message, TCA_TBF_BURST, &burst, sizeof burst);
	close_attribute(&message, all);
	ask(&message, "cannot limit a network device (tbf)");
}
