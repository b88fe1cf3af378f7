package api

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func goodWorkload(t *testing.T) *Workload {
	t.Helper()
	items, err := DecodeManifests("f.yaml", []byte(hello))
	if err != nil {
		t.Fatal(err)
	}
	Default(items[0].Object)
	return items[0].Object.(*Workload)
}

func quantity(t *testing.T, s string) Quantity {
	t.Helper()
	q, err := ParseQuantity(s)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestWorkloadsThatCannotWorkAreRefused(t *testing.T) {
	n := func(i int32) *int32 { return &i }
	cont := func(w *Workload) *Container { return &w.Spec.Template.Spec.Containers[0] }
	for _, c := range []struct {
		name   string
		change func(*Workload)
		want   string // "path: part of the message"; "" = fine
	}{
		{"nothing wrong", func(*Workload) {}, ""},
		{"no name", func(w *Workload) { w.Metadata.Name = "" }, "metadata.name: is missing"},
		{"bad namespace", func(w *Workload) { w.Metadata.Namespace = "a.b" }, `metadata.namespace: "a.b" has the character '.'`},
		{"bad label", func(w *Workload) { w.Metadata.Labels = map[string]string{"a b": "c"} }, `metadata.labels["a b"]: key "a b"`},
		{"owner without uid", func(w *Workload) { w.Metadata.OwnerReferences = []OwnerReference{{Kind: "x"}} }, "metadata.ownerReferences[0]: needs"},
		{"everywhere and replicas", func(w *Workload) { w.Spec.Placement.Replicas = n(3) }, "spec.placement: has both everywhere and replicas"},
		{"neither", func(w *Workload) { w.Spec.Placement.Everywhere = false }, "spec.placement: needs everywhere: true"},
		{"no selector", func(w *Workload) { w.Spec.Placement.Selector = nil }, "spec.placement.selector: selects nothing"},
		{"empty selector", func(w *Workload) { w.Spec.Placement.Selector = &LabelSelector{} }, "spec.placement.selector: selects nothing"},
		{"all and a selector", func(w *Workload) { w.Spec.Placement.All = true }, "spec.placement: has both all: true and a selector"},
		{"all", func(w *Workload) { w.Spec.Placement.All, w.Spec.Placement.Selector = true, nil }, ""},
		{"no copies", func(w *Workload) { w.Spec.Placement.Everywhere, w.Spec.Placement.Replicas = false, n(0) }, ""},
		{"too many copies", func(w *Workload) { w.Spec.Placement.Everywhere, w.Spec.Placement.Replicas = false, n(100001) }, "spec.placement.replicas: is 100001"},
		{"bad expression", func(w *Workload) {
			w.Spec.Placement.Selector = &LabelSelector{MatchExpressions: []LabelSelectorRequirement{{Key: "a", Operator: "Inn", Values: []string{"b"}}}}
		}, `spec.placement.selector.matchExpressions[0].operator: "Inn" is not known; did you mean In?`},
		{"toleration", func(w *Workload) {
			w.Spec.Placement.Tolerations = []Toleration{{Operator: TolerationExists}, {Key: "a", Operator: TolerationEqual, Value: "b"}}
		}, ""},
		{"toleration of NoExecute", func(w *Workload) {
			w.Spec.Placement.Tolerations = []Toleration{{Key: "a", Operator: TolerationExists, Effect: "NoExecute"}}
		}, "spec.placement.tolerations[0].effect: NoExecute: not supported"},
		{"toleration without a key", func(w *Workload) { w.Spec.Placement.Tolerations = []Toleration{{Operator: TolerationEqual}} }, "spec.placement.tolerations[0].key: is missing"},
		{"maxUnavailable 0", func(w *Workload) { w.Spec.Rollout.MaxUnavailable = &IntOrPercent{} }, "spec.rollout.maxUnavailable: is 0"},
		{"history", func(w *Workload) { w.Spec.RevisionHistoryLimit = n(101) }, "spec.revisionHistoryLimit: is 101"},
		{"minReadySeconds", func(w *Workload) { w.Spec.Rollout.MinReadySeconds = -1 }, "spec.rollout.minReadySeconds: is -1"},
		{"progressDeadline", func(w *Workload) { w.Spec.Rollout.ProgressDeadline = Duration{-time.Second} }, "spec.rollout.progressDeadline: is below 0"},
		{"no containers", func(w *Workload) { w.Spec.Template.Spec.Containers = nil }, "spec.template.spec.containers: is empty"},
		{"host network off", func(w *Workload) { *w.Spec.Template.Spec.HostNetwork = false }, "spec.template.spec.hostNetwork: false is not supported"},
		{"grace", func(w *Workload) { *w.Spec.Template.Spec.TerminationGracePeriodSeconds = 3601 }, "spec.template.spec.terminationGracePeriodSeconds: is 3601"},
		{"restart policy", func(w *Workload) { w.Spec.Template.Spec.RestartPolicy = "always" }, `restartPolicy: "always" is not known; did you mean Always?`},
		{"pull policy", func(w *Workload) { cont(w).ImagePullPolicy = "Sometimes" }, `imagePullPolicy: "Sometimes" is not known`},
		{"container name", func(w *Workload) { cont(w).Name = "Main" }, `containers[0].name: "Main" has an upper-case letter`},
		{"no image", func(w *Workload) { cont(w).Image = "" }, "containers[0].image: is missing"},
		{"relative directory", func(w *Workload) { cont(w).WorkingDir = "data" }, `containers[0].workingDir: "data" is not an absolute path`},
		{"container twice", func(w *Workload) {
			s := &w.Spec.Template.Spec
			s.Containers = append(s.Containers, s.Containers[0])
		}, `containers[1].name: "main" is there twice: also at spec.template.spec.containers[0]`},
		{"variable twice", func(w *Workload) { cont(w).Env = append(cont(w).Env, cont(w).Env[0]) }, `env[1].name: "SITE" is there twice`},
		{"variable name", func(w *Workload) { cont(w).Env[0].Name = "A=B" }, "env[0].name: \"A=B\" is not a variable's name"},
		{"value and valueFrom", func(w *Workload) { cont(w).Env[0].ValueFrom = &EnvVarSource{FieldRef: &FieldRef{"device.name"}} }, "env[0]: has both value and valueFrom"},
		{"no source", func(w *Workload) { cont(w).Env[0] = EnvVar{Name: "A", ValueFrom: &EnvVarSource{}} }, "env[0].valueFrom: has 0 sources"},
		{"field of the device", func(w *Workload) {
			cont(w).Env[0] = EnvVar{Name: "A", ValueFrom: &EnvVarSource{FieldRef: &FieldRef{"device.labels.x.io/y"}}}
		}, ""},
		{"unknown field", func(w *Workload) {
			cont(w).Env[0] = EnvVar{Name: "A", ValueFrom: &EnvVarSource{FieldRef: &FieldRef{"device.nam"}}}
		}, "env[0].valueFrom.fieldRef.fieldPath: \"device.nam\" is not known; did you mean device.name?"},
		{"secret without a key", func(w *Workload) {
			cont(w).Env[0] = EnvVar{Name: "A", ValueFrom: &EnvVarSource{SecretKeyRef: &KeySelector{Name: "s"}}}
		}, "env[0].valueFrom.secretKeyRef.key: key \"\""},
		{"request above limit", func(w *Workload) { cont(w).Resources.Requests[ResourceMemory] = quantity(t, "256Mi") }, "resources.requests.memory: 256Mi is more than the limit of 128Mi"},
		{"limit below the floor", func(w *Workload) {
			cont(w).Resources = ResourceRequirements{Limits: ResourceList{ResourceMemory: quantity(t, "128k")}}
		}, "resources.limits.memory: is 128000 bytes, less than"},
		{"limit 0", func(w *Workload) {
			cont(w).Resources = ResourceRequirements{Limits: ResourceList{ResourceCPU: quantity(t, "0")}}
		}, "resources.limits.cpu: is 0"},
		{"storage", func(w *Workload) { cont(w).Resources.Requests[ResourceStorage] = quantity(t, "1Gi") }, "resources.requests.storage: not supported"},
		{"unknown resource", func(w *Workload) { cont(w).Resources.Requests["gpu"] = quantity(t, "1") }, `resources.requests.gpu: unknown resource "gpu"`},
		{"mount without volume", func(w *Workload) { w.Spec.Template.Spec.Volumes = nil }, `volumeMounts[0].name: there is no volume "data"`},
		{"mount path twice", func(w *Workload) {
			cont(w).VolumeMounts = append(cont(w).VolumeMounts, VolumeMount{Name: "data", MountPath: "/data/"})
		}, `volumeMounts[1].mountPath: "/data" is there twice`},
		{"mount at the root", func(w *Workload) { cont(w).VolumeMounts[0].MountPath = "/" }, "volumeMounts[0].mountPath: a volume cannot replace the root"},
		{"mount path with ..", func(w *Workload) { cont(w).VolumeMounts[0].MountPath = "/a/../b" }, `volumeMounts[0].mountPath: "/a/../b" has a part ".."; write it as "/b"`},
		{"volume twice", func(w *Workload) {
			s := &w.Spec.Template.Spec
			s.Volumes = append(s.Volumes, s.Volumes[0])
		}, `volumes[1].name: "data" is there twice`},
		{"volume of nothing", func(w *Workload) { w.Spec.Template.Spec.Volumes[0].EmptyDir = nil }, "volumes[0]: needs exactly one of"},
		{"volume of both", func(w *Workload) { w.Spec.Template.Spec.Volumes[0].HostPath = &HostPathVolume{Path: "/a"} }, "volumes[0]: needs exactly one of"},
		{"relative host path", func(w *Workload) {
			w.Spec.Template.Spec.Volumes[0] = Volume{Name: "data", HostPath: &HostPathVolume{Path: "a"}}
		}, `volumes[0].hostPath.path: "a" is not an absolute path`},
		{"host path type", func(w *Workload) {
			w.Spec.Template.Spec.Volumes[0] = Volume{Name: "data", HostPath: &HostPathVolume{Path: "/a", Type: "Socket"}}
		}, `volumes[0].hostPath.type: "Socket" is not known`},
		{"probe without exec", func(w *Workload) { cont(w).ReadinessProbe = &Probe{} }, "readinessProbe.exec.command: is missing"},
		{"probe", func(w *Workload) { cont(w).ReadinessProbe = &Probe{Exec: &ExecAction{Command: []string{"true"}}} }, ""},
		{"probe period", func(w *Workload) {
			cont(w).ReadinessProbe = &Probe{Exec: &ExecAction{Command: []string{"true"}}, PeriodSeconds: -1}
		}, "readinessProbe.periodSeconds: is -1"},
		{"condition", func(w *Workload) { w.Status.Conditions = []Condition{{Type: "A", Status: "yes"}} }, `status.conditions[0].status: "yes" is not known`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := goodWorkload(t)
			c.change(w)
			Default(w)
			checkErrors(t, Validate(w), c.want)
		})
	}
}

// checkErrors wants exactly one error, with the text in it; "" wants none.
func checkErrors(t *testing.T, errs []FieldError, want string) {
	t.Helper()
	if want == "" {
		if len(errs) > 0 {
			t.Errorf("got %v, want no error", errs)
		}
		return
	}
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
		t.Errorf("got %v, want one error with %q", errs, want)
	}
}

func good(k *Kind) Object {
	meta := ObjectMeta{Name: "a", Namespace: "default", UID: "u"}
	hash := "sha256:" + strings.Repeat("0", 64)
	cluster := ObjectMeta{Name: "a", UID: "u"}
	var o Object
	switch k {
	case KindWorkloadRevision:
		o = &WorkloadRevision{Metadata: meta, Spec: WorkloadRevisionSpec{
			Workload: "a", Revision: 1, Hash: "h", Images: map[string]string{"i": "r@sha256:0"},
			Template: Template{Spec: PodSpec{Containers: []Container{{Name: "c", Image: "i"}}}},
		}}
	case KindAssignment:
		o = &Assignment{Metadata: meta, Spec: AssignmentSpec{Workload: "a", Revision: "r"}}
	case KindRollout:
		o = &Rollout{Metadata: meta, Spec: RolloutSpec{Workload: "a", To: "r"}}
	case KindDevice:
		o = &Device{Metadata: cluster}
	case KindJoinToken:
		o = &JoinToken{Metadata: cluster, Spec: JoinTokenSpec{SecretHash: hash}}
	case KindEnrollmentRequest:
		o = &EnrollmentRequest{Metadata: cluster, Spec: EnrollmentRequestSpec{Device: "d", Token: "t", Fingerprint: hash, CSR: []byte{1}}}
	case KindTombstone:
		o = &Tombstone{Metadata: ObjectMeta{Name: "d.u"}, Spec: TombstoneSpec{Device: "d", UID: "u"}}
	case KindNamespace:
		o = &Namespace{Metadata: cluster}
	case KindConfigMap:
		o = &ConfigMap{Metadata: meta, Data: map[string]string{"k": "v"}}
	case KindSecret:
		o = &Secret{Metadata: meta, Data: map[string][]byte{"k": []byte("v")}}
	case KindEvent:
		o = &Event{Metadata: meta, InvolvedObject: ObjectReference{Kind: "Device", Name: "d"}}
	default:
		return nil
	}
	Default(o)
	return o
}

func TestOtherKindsHaveTheirRules(t *testing.T) {
	for _, c := range []struct {
		kind   *Kind
		change func(Object)
		want   string
	}{
		{KindWorkloadRevision, func(o Object) { o.(*WorkloadRevision).Spec.Images = nil }, "spec.images.i: container 0 has no repository@sha256"},
		{KindWorkloadRevision, func(o Object) { o.(*WorkloadRevision).Spec.Revision = 0 }, "spec.revision: is 0"},
		{KindAssignment, func(o Object) { o.(*Assignment).Spec.Device = "Pi" }, "spec.device: \"Pi\" has an upper-case letter"},
		{KindAssignment, func(o Object) { o.(*Assignment).Spec.Revision = "" }, "spec.revision: is missing"},
		{KindRollout, func(o Object) { o.(*Rollout).Spec.To = "" }, "spec.to: is missing"},
		{KindDevice, func(o Object) { o.Meta().Namespace = "default" }, "metadata.namespace: Device has no namespace"},
		{KindDevice, func(o Object) { o.(*Device).Spec.Taints = []Taint{{Key: "a", Effect: "NoExecute"}} }, "spec.taints[0].effect: NoExecute: not supported"},
		{KindDevice, func(o Object) {
			o.(*Device).Spec.Taints = []Taint{{Key: "a", Effect: EffectNoSchedule}, {Key: "a", Value: "b", Effect: EffectNoSchedule}}
		}, "spec.taints[1]: taint \"a\" is there twice"},
		{KindJoinToken, func(o Object) { o.(*JoinToken).Spec.Uses = 100001 }, "spec.uses: is 100001"},
		{KindJoinToken, func(o Object) { o.(*JoinToken).Spec.For = "hubs" }, "spec.for: \"hubs\" is not known; did you mean hub?"},
		{KindJoinToken, func(o Object) { o.(*JoinToken).Spec.SecretHash = "secret" }, "spec.secretHash: want sha256:"},
		{KindJoinToken, func(o Object) { o.(*JoinToken).Spec.Labels = map[string]string{LabelArch: "x"} }, "spec.labels[\"fleet.drover.dev/arch\"]: labels of fleet.drover.dev/ are set by the hub"},
		{KindEnrollmentRequest, func(o Object) { o.(*EnrollmentRequest).Spec.Fingerprint = "x" }, "spec.fingerprint: want sha256:"},
		{KindEnrollmentRequest, func(o Object) {
			o.(*EnrollmentRequest).Spec.Approved, o.(*EnrollmentRequest).Spec.Denied = true, true
		}, "spec: is both approved and denied"},
		{KindTombstone, func(o Object) { o.Meta().Name = "x" }, "metadata.name: is \"x\", want DEVICE.UID, \"d.u\""},
		{KindNamespace, func(o Object) { o.Meta().Name = "a.b" }, "metadata.name: \"a.b\" has the character"},
		{KindConfigMap, func(o Object) { o.(*ConfigMap).Data = map[string]string{"a/b": ""} }, "data[\"a/b\"]: key \"a/b\" has the character"},
		{KindConfigMap, func(o Object) { o.(*ConfigMap).BinaryData = map[string][]byte{"k": nil} }, "binaryData.k: is also in data"},
		{KindSecret, func(o Object) { o.(*Secret).Data = map[string][]byte{"..": nil} }, "data[\"..\"]: key \"..\""},
		{KindEvent, func(o Object) { o.(*Event).InvolvedObject.Name = "" }, "involvedObject: needs kind and name"},
		{KindEvent, func(o Object) { o.(*Event).EventType = "Bad" }, "type: \"Bad\" is not known"},
	} {
		o := good(c.kind)
		checkErrors(t, Validate(o), "")
		c.change(o)
		checkErrors(t, Validate(o), c.want)
	}
}

func TestWhatMayNotChangeIsRefused(t *testing.T) {
	yes := true
	for _, c := range []struct {
		kind        *Kind
		before, now func(Object)
		want        string
	}{
		{KindDevice, nil, func(o Object) { o.Meta().Name = "b" }, "metadata.name: may not change"},
		{KindDevice, nil, func(o Object) { o.Meta().UID = "v" }, "metadata.uid: may not change"},
		{KindDevice, nil, func(o Object) { o.(*Device).Spec.Unschedulable = true }, ""},
		{KindWorkloadRevision, nil, func(o Object) { o.(*WorkloadRevision).Spec.Template.Spec.RestartPolicy = RestartNever }, "spec: may not change"},
		{KindWorkloadRevision, nil, func(o Object) { o.(*WorkloadRevision).Spec.Revision = 2 }, ""},
		{KindWorkloadRevision, func(o Object) { o.(*WorkloadRevision).Spec.Revision = 3 }, func(o Object) { o.(*WorkloadRevision).Spec.Revision = 2 }, "spec.revision: may only grow"},
		{KindAssignment, nil, func(o Object) { o.(*Assignment).Spec.Workload = "b" }, "spec.workload: may not change"},
		{KindAssignment, nil, func(o Object) { o.(*Assignment).Spec.Device, o.(*Assignment).Spec.Revision = "d", "s" }, ""},
		{KindRollout, nil, func(o Object) { o.(*Rollout).Spec.To = "s" }, "spec.to: may not change"},
		{KindRollout, nil, func(o Object) { o.(*Rollout).Spec.Paused, o.(*Rollout).Spec.Aborted = true, true }, ""},
		{KindRollout, func(o Object) { o.(*Rollout).Spec.Aborted = true }, func(o Object) { o.(*Rollout).Spec.Aborted = false }, "spec.aborted: an aborted rollout stays so"},
		{KindJoinToken, nil, func(o Object) { o.(*JoinToken).Spec.SecretHash = "sha256:" + strings.Repeat("1", 64) }, "spec.secretHash: may not change"},
		{KindEnrollmentRequest, nil, func(o Object) { o.(*EnrollmentRequest).Spec.CSR = []byte{2} }, "spec.csr: may not change"},
		{KindEnrollmentRequest, nil, func(o Object) { o.(*EnrollmentRequest).Spec.Approved = true }, ""},
		{KindTombstone, nil, func(o Object) { o.(*Tombstone).Spec.Workload = "x" }, "spec: may not change"},
		{KindConfigMap, nil, func(o Object) { o.(*ConfigMap).Data["k"] = "w" }, ""},
		{KindConfigMap, func(o Object) { o.(*ConfigMap).Immutable = &yes }, func(o Object) { o.(*ConfigMap).Data["k"] = "w" }, "data: may not change"},
		{KindConfigMap, func(o Object) { o.(*ConfigMap).Immutable = &yes }, func(o Object) { o.(*ConfigMap).Immutable = nil }, "immutable: may not change"},
		{KindSecret, nil, func(o Object) { o.(*Secret).SecretType = "x" }, "type: may not change"},
		{KindSecret, func(o Object) { o.(*Secret).Immutable = &yes }, func(o Object) { o.(*Secret).Data["k"] = []byte("w") }, "data: may not change"},
	} {
		old := good(c.kind)
		if c.before != nil {
			c.before(old)
		}
		now := old.DeepCopyObject()
		c.now(now)
		checkErrors(t, ValidateUpdate(old, now), c.want)
	}
}

func TestDefaultsAreFilledOnceAndKeepWhatIsGiven(t *testing.T) {
	w := goodWorkload(t)
	s := w.Spec
	if *s.RevisionHistoryLimit != 10 || *s.Rollout.MaxUnavailable != (IntOrPercent{Percent: 10, IsPercent: true}) || s.Rollout.ProgressDeadline.Minutes() != 10 ||
		s.Template.Spec.RestartPolicy != RestartAlways || *s.Template.Spec.TerminationGracePeriodSeconds != 30 || s.Template.Spec.Containers[0].ImagePullPolicy != PullIfNotPresent ||
		w.Metadata.Namespace != DefaultNS || !*s.Template.Spec.HostNetwork {
		t.Errorf("defaults are %+v", s)
	}
	for _, k := range Kinds() {
		o := filled(k)
		Default(o)
		once := o.DeepCopyObject()
		Default(o)
		if !reflect.DeepEqual(once, o) {
			t.Errorf("%s: a second Default changes the object", k)
		}
	}
	secret := &Secret{Data: map[string][]byte{"a": []byte("1")}, StringData: map[string]string{"a": "2", "b": "3"}}
	Default(secret)
	if diff := cmp.Diff(map[string][]byte{"a": []byte("2"), "b": []byte("3")}, secret.Data); diff != "" || secret.StringData != nil {
		t.Errorf("stringData is not merged into data:\n%s", diff)
	}
}

func TestKindsAreFoundByEveryNameOfTheirs(t *testing.T) {
	names := map[string]*Kind{}
	for _, k := range Kinds() {
		if got, ok := KindFor(k.New()); !ok || got != k {
			t.Errorf("KindFor(new %s) = %v", k, got)
		}
		if got, ok := KindOf(k.APIVersion, k.Kind); !ok || got != k {
			t.Errorf("KindOf(%s, %s) = %v", k.APIVersion, k.Kind, got)
		}
		for _, n := range append([]string{k.Kind, k.Plural, k.Singular, strings.ToUpper(k.Plural)}, k.ShortNames...) {
			if other := names[n]; other != nil && other != k {
				t.Errorf("%q names both %s and %s", n, other, k)
			}
			names[n] = k
			if got, ok := KindByName(n); !ok || got != k {
				t.Errorf("KindByName(%q) = %v, want %s", n, got, k)
			}
		}
	}
	if k, ok := KindByName("devices.fleet.drover.dev"); !ok || k != KindDevice {
		t.Errorf("KindByName with a group = %v", k)
	}
	if k, ok := KindByName("devices.apps"); ok {
		t.Errorf("KindByName with another group = %v", k)
	}
	if ref, ok := RefOf(&Workload{Metadata: ObjectMeta{Name: "a"}}); !ok || ref.String() != "workload/default/a" {
		t.Errorf("RefOf = %v", ref)
	}
}
