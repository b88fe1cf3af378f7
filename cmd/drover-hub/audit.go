package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/hub"
	"github.com/drover-fleet/drover/hub/audit"
)

func auditFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "audit-policy", Usage: "`FILE` that says what goes on record, a part of Kubernetes' audit.k8s.io/v1 Policy (default: writes, refusals, reads of secrets)"},
		&cli.StringFlag{Name: "audit-size", Value: "64Mi", Usage: "`SIZE` at which an audit file is ended"},
		&cli.IntFlag{Name: "audit-keep", Value: audit.DefaultKeep, Usage: "`N` audit files are kept"},
		&cli.StringFlag{Name: "audit-on-failure", Value: string(audit.Refuse), Usage: "`POLICY` when requests cannot be put on record: refuse (writes), or record-gap (afterwards)"},
	}
}

// auditOf reads them.
func auditOf(c *cli.Context) (hub.AuditConfig, error) {
	a := hub.AuditConfig{Keep: c.Int("audit-keep"), OnFailure: audit.OnFailure(c.String("audit-on-failure"))}
	size, err := api.ParseQuantity(c.String("audit-size"))
	switch {
	case err != nil:
		return a, usageError(fmt.Sprintf("--audit-size: %v", err))
	case size.Bytes() < audit.LeastFileBytes:
		return a, usageError(fmt.Sprintf("--audit-size %s: want %dKi or more", c.String("audit-size"), audit.LeastFileBytes>>10))
	case a.Keep < 2:
		return a, usageError(fmt.Sprintf("--audit-keep %d: want 2 or more", a.Keep))
	case a.OnFailure != audit.Refuse && a.OnFailure != audit.RecordGap:
		return a, usageError(fmt.Sprintf("--audit-on-failure %q: want %s or %s", a.OnFailure, audit.Refuse, audit.RecordGap))
	}
	a.FileBytes = size.Bytes()
	if path := c.String("audit-policy"); path != "" {
		if a.Policy, err = audit.ReadPolicy(path); err != nil {
			return a, err
		}
	}
	return a, nil
}
