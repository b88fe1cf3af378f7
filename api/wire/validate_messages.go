package wire

import "fmt"

// Validate checks a BodiesRequest.
func (r *BodiesRequest) Validate() error {
	return first(checkCount("bodies", len(r.Bodies), maxEntries), each(r.Bodies, func(h *Hash) error { return checkHash("body hash", *h, true) }),
		checkCount("secrets", len(r.Secrets), maxItems), each(r.Secrets, (*SecretRef).Validate))
}

// Validate checks a BodiesReply. The bodies themselves are checked by hash and decoded one by one.
func (r *BodiesReply) Validate() error {
	return first(checkCount("bodies", len(r.Bodies), maxEntries), checkCount("secrets", len(r.Secrets), maxItems), each(r.Secrets, (*Sealed).Validate))
}

// Validate checks a Sealed.
func (s *Sealed) Validate() error {
	if len(s.Ephemeral) != 65 {
		return fmt.Errorf("ephemeral key is %d bytes, want 65", len(s.Ephemeral))
	}
	return first(s.Ref.Validate(), checkCount("bytes of ciphertext", len(s.Ciphertext), maxSealed))
}

// Validate checks a Report.
func (r *Report) Validate() error {
	if r.Session == 0 || r.Sequence == 0 {
		return fmt.Errorf("session %d, sequence %d: want each at least 1", r.Session, r.Sequence)
	}
	if err := first(r.Held.Validate(), checkHash("bundle hash", r.BundleHash, false),
		checkCount("statuses", len(r.Statuses), maxEntries), each(r.Statuses, (*Status).Validate),
		ordered("status", r.Statuses, func(s *Status) string { return s.UID }),
		each(r.Gone, func(s *string) error { return checkUID(*s) }),
		checkCount("conditions", len(r.Conditions), maxContainers), each(r.Conditions, (*Condition).Validate),
		distinct("condition", r.Conditions, func(c *Condition) string { return c.Type }),
		checkCount("journal records", len(r.Journal), maxJournal), each(r.Journal, (*JournalRecord).Validate)); err != nil {
		return err
	}
	for i := 1; i < len(r.Journal); i++ {
		if r.Journal[i].Sequence <= r.Journal[i-1].Sequence {
			return fmt.Errorf("journal record %d comes after %d: want rising sequences", r.Journal[i].Sequence, r.Journal[i-1].Sequence)
		}
	}
	if r.Facts != nil {
		return r.Facts.Validate()
	}
	return nil
}

// Validate checks a Status.
func (s *Status) Validate() error {
	return first(checkUID(s.UID), checkName("phase", s.Phase), checkText("message", s.Message, maxText), checkHash("spec hash", s.SpecHash, false),
		checkText("revision", s.Revision, maxName), checkCount("containers", len(s.Containers), maxContainers), each(s.Containers, (*ContainerStatus).Validate),
		distinct("container", s.Containers, func(c *ContainerStatus) string { return c.Name }))
}

// Validate checks a ContainerStatus.
func (c *ContainerStatus) Validate() error {
	return first(checkName("container", c.Name), checkText("container id", c.ID, maxName), checkText("digest", c.Digest, maxText), checkName("state", c.State),
		checkText("exit reason", c.ExitReason, maxName), checkText("message", c.Message, maxText))
}

// Validate checks a Condition.
func (c *Condition) Validate() error {
	if c.Status != "True" && c.Status != "False" && c.Status != "Unknown" {
		return fmt.Errorf("condition %q has status %q, want True, False or Unknown", clip(c.Type), clip(c.Status))
	}
	return first(checkName("condition", c.Type), checkText("reason", c.Reason, maxName), checkText("message", c.Message, maxText))
}

// Validate checks a JournalRecord.
func (r *JournalRecord) Validate() error {
	if r.Sequence == 0 || r.Count == 0 {
		return fmt.Errorf("journal record with sequence %d, count %d: want each at least 1", r.Sequence, r.Count)
	}
	if r.UID != "" {
		if err := checkUID(r.UID); err != nil {
			return err
		}
	}
	return first(checkText("object", r.Object, 2*maxName+1), checkName("reason", r.Reason), checkText("message", r.Message, maxText), checkText("container", r.Container, maxName))
}

// Validate checks the lengths of Facts.
func (f *Facts) Validate() error {
	return each([]string{f.Platform, f.Model, f.Serial, f.Kernel, f.OSImage, f.Hostname, f.Runtime, f.BootID, f.Cgroup, f.AgentVersion},
		func(s *string) error { return checkText("a fact", *s, 512) })
}

// Validate checks a Command.
func (c *Command) Validate() error {
	if c.TTLSecs == 0 {
		return fmt.Errorf("command %q has no time to live", clip(c.ID))
	}
	if err := first(checkUID(c.ID), checkText("cluster id", c.ClusterID, maxUID), checkName("device", c.Device), checkName("verb", c.Verb)); err != nil {
		return err
	}
	if c.Stream != nil {
		return c.Stream.Validate()
	}
	return nil
}

// Validate checks a Logs.
func (l *Logs) Validate() error {
	if l.TailLines < -1 {
		return fmt.Errorf("tail lines %d: want a count, or -1 for all", l.TailLines)
	}
	return first(checkUID(l.UID), checkText("container", l.Container, maxName))
}

// Validate checks an EnrollRequest. The token is parsed by the hub.
func (r *EnrollRequest) Validate() error {
	if len(r.CSR) == 0 {
		return fmt.Errorf("no certificate request")
	}
	return first(checkText("token", string(r.Token), maxToken), checkName("name", r.Name), checkCount("bytes of CSR", len(r.CSR), maxCSR), r.Facts.Validate())
}

// Validate checks an EnrollReply.
func (r *EnrollReply) Validate() error {
	switch r.State {
	case EnrollApproved:
		if len(r.Certificate) == 0 || len(r.CA) == 0 {
			return fmt.Errorf("approved, but without a certificate or a CA")
		}
	case EnrollPending, EnrollDenied:
	default:
		return fmt.Errorf("state %q is not known", clip(r.State))
	}
	return first(checkText("message", r.Message, maxText), checkText("cluster id", r.ClusterID, maxUID), checkCount("CA certificates", len(r.CA), maxContainers),
		checkCount("endpoints", len(r.Endpoints), maxItems), each(r.Endpoints, func(s *string) error { return checkText("endpoint", *s, maxText) }))
}
