package api

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Protocols of ports.
const (
	ProtocolTCP  = "TCP"
	ProtocolUDP  = "UDP"
	ProtocolSCTP = "SCTP"
)

const (
	maxPorts       = 64 // of one container
	maxDevices     = 32 // of one container
	maxPortName    = 15 // IANA's length of a service's name
	maxPermissions = 3
	// DefaultPermissions of a device file.
	DefaultPermissions = "rw"
)

// portsSeen remembers the names and the host ports of all containers of a template.
type portsSeen struct{ names, host map[string]string }

func (p *portsSeen) check(at string, ports []ContainerPort) []FieldError {
	if p.names == nil {
		p.names, p.host = map[string]string{}, map[string]string{}
	}
	errs := limitCount(at, len(ports), maxPorts)
	own := map[string]string{}
	for i, port := range ports {
		here := at + index(i)
		errs = append(errs, rangeError(here+".containerPort", int64(port.ContainerPort), 1, 65535)...)
		if protocols := []string{ProtocolTCP, ProtocolUDP, ProtocolSCTP}; !slices.Contains(protocols, port.Protocol) {
			errs = append(errs, FieldError{here + ".protocol", unknownValue(port.Protocol, protocols...)})
		}
		errs = append(errs, once(own, here, fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol))...)
		if port.Name != "" {
			errs = appendErr(errs, here+".name", checkPortName(port.Name))
			errs = append(errs, once(p.names, here+".name", port.Name)...)
		}
		if port.HostPort == 0 {
			continue
		}
		if port.HostPort != port.ContainerPort {
			errs = append(errs, FieldError{here + ".hostPort", fmt.Sprintf(
				"is %d, the containerPort %d: containers share the device's network, so it must be the same; write the port that the container listens on", port.HostPort, port.ContainerPort)})
		}
		errs = append(errs, once(p.host, here+".hostPort", fmt.Sprintf("%d/%s", port.HostPort, port.Protocol))...)
	}
	return errs
}

// once complains about what was there before.
func once(seen map[string]string, at, what string) []FieldError {
	if before, found := seen[what]; found {
		return []FieldError{{at, fmt.Sprintf("%q is there twice: also at %s", what, before)}}
	}
	seen[what] = at
	return nil
}

// checkPortName wants a service's name, as Kubernetes does.
func checkPortName(s string) error {
	letter := strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' })
	if len(s) > maxPortName || CheckDNSLabel(s) != nil || !letter || strings.Contains(s, "--") {
		return fmt.Errorf("%q is no port's name: want 1 to %d of a-z, 0-9 and single '-' within, with a letter", clip(s), maxPortName)
	}
	return nil
}

func checkDevices(at string, devices []DeviceFile) []FieldError {
	errs := limitCount(at, len(devices), maxDevices)
	seen := map[string]int{}
	for i, d := range devices {
		errs = append(errs, twice(at, ".path", d.Path, i, seen)...)
		errs = appendErr(errs, at+index(i)+".path", checkDevicePath(d.Path))
		if strings.ContainsAny(d.Path, "*?[") {
			errs = append(errs, FieldError{at + index(i) + ".path", "is a pattern: name one device file"})
		}
		if p := d.Permissions; p == "" || len(p) > maxPermissions || strings.Trim(p, "rwm") != "" || strings.Count(p, p[:1]) > 1 || len(p) == maxPermissions && p[1] == p[2] {
			errs = append(errs, FieldError{at + index(i) + ".permissions", fmt.Sprintf("%q: want r, w and m, each at most once", clip(p))})
		}
	}
	return errs
}

// checkHostPath wants a path that is written without detours: what a pool allows is judged by it.
func checkHostPath(p string) error {
	if err := checkPath(p); err != nil {
		return err
	}
	if clean := path.Clean(p); clean != p && clean+"/" != p {
		return fmt.Errorf("%q has detours; write it as %q", clip(p), clip(clean))
	}
	return nil
}
