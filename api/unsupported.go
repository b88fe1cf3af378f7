package api

import (
	"reflect"
	"slices"
)

// knownElsewhere reports whether a field that the type lacks exists in the same place in Kubernetes, or in a later release of
// Drover: people get told that it is not supported, rather than that it is misspelt.
func knownElsewhere(t reflect.Type, field string) bool {
	return slices.Contains(otherFields(t), field)
}

func otherFields(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[PodSpec]():
		return []string{
			"activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "configUpdate", "dnsConfig", "dnsPolicy", "enableServiceLinks",
			"ephemeralContainers", "hostAliases", "hostIPC", "hostPID", "hostUsers", "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName",
			"nodeSelector", "os", "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources", "runtimeClassName",
			"schedulerName", "schedulingGates", "securityContext", "serviceAccount", "setHostnameAsFQDN", "shareProcessNamespace",
			"subdomain", "tolerations", "topologySpreadConstraints",
		}
	case reflect.TypeFor[Container]():
		return []string{
			"envFrom", "lifecycle", "livenessProbe", "resizePolicy", "restartPolicy", "startupProbe", "stdin", "stdinOnce",
			"terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices",
		}
	case reflect.TypeFor[Volume]():
		return []string{
			"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi", "downwardAPI", "ephemeral", "fc", "flexVolume", "flocker",
			"gcePersistentDisk", "gitRepo", "glusterfs", "image", "iscsi", "nfs", "persistent", "persistentVolumeClaim", "photonPersistentDisk", "portworxVolume",
			"quobyte", "rbd", "scaleIO", "secret", "storageos", "vsphereVolume",
		}
	case reflect.TypeFor[VolumeProjection]():
		return []string{"clusterTrustBundle", "configMap", "downwardAPI", "podCertificate", "secret"}
	case reflect.TypeFor[VolumeMount]():
		return []string{"mountPropagation", "recursiveReadOnly", "subPath", "subPathExpr"}
	case reflect.TypeFor[EmptyDirVolume]():
		return []string{"medium", "sizeLimit"}
	case reflect.TypeFor[Probe]():
		return []string{"grpc", "httpGet", "tcpSocket", "terminationGracePeriodSeconds"}
	case reflect.TypeFor[EnvVarSource]():
		return []string{"fileKeyRef", "resourceFieldRef"}
	case reflect.TypeFor[FieldRef]():
		return []string{"apiVersion"}
	case reflect.TypeFor[ResourceRequirements]():
		return []string{"claims"}
	case reflect.TypeFor[Toleration]():
		return []string{"tolerationSeconds"}
	case reflect.TypeFor[Taint]():
		return []string{"timeAdded"}
	case reflect.TypeFor[WorkloadSpec]():
		return []string{"offline"}
	case reflect.TypeFor[Placement]():
		return []string{"affinity", "spread"}
	case reflect.TypeFor[ContainerPort]():
		return []string{"hostIP"}
	case reflect.TypeFor[SecurityContext]():
		return []string{
			"allowPrivilegeEscalation", "appArmorProfile", "capabilities", "procMount", "readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot", "runAsUser",
			"seLinuxOptions", "seccompProfile", "windowsOptions",
		}
	case reflect.TypeFor[PriorityClass]():
		return []string{"preemptionPolicy"}
	case reflect.TypeFor[ResourceQuotaSpec]():
		return []string{"scopes", "scopeSelector"}
	case reflect.TypeFor[RolloutRule]():
		return []string{"strategy", "waves", "failureThreshold", "onFailure", "window", "gates", "steps"}
	case reflect.TypeFor[DeviceSpec]():
		return []string{"decommission", "link"}
	case reflect.TypeFor[ObjectMeta]():
		return []string{"clusterName", "selfLink"}
	case reflect.TypeFor[NamespaceSpec]():
		return []string{"finalizers"}
	case reflect.TypeFor[Event]():
		return []string{"action", "eventTime", "related", "reportingComponent", "reportingInstance", "series"}
	}
	return nil
}
