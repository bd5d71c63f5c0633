package link

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long the other end may leave what was sent without an acknowledgement.
const silence = 30 * time.Second

// Watch ends a connection whose other end is gone, or has not acknowledged what was sent for 30 seconds.
func Watch(conn net.Conn) {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second,
		Count: 4})
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
		})
	}
}
