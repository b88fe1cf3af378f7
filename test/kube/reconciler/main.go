// Command reconciler is a manager of controller-runtime that reconciles Drover's workloads: it keeps the annotation example.com/seen of
// each at the workload's generation, and keeps a ConfigMap beside each that the workload owns. It is a
// module of its own, so that controller-runtime is no dependency of Drover.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const seen = "example.com/seen"

func workload() *unstructured.Unstructured {
	u := new(unstructured.Unstructured)
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "fleet.drover.dev", Version: "v1", Kind: "Workload"})
	return u
}

// reconciler brings what belongs to a workload to where it should be, from whatever it finds.
type reconciler struct {
	client.Client
	scheme *runtime.Scheme
}

func (r *reconciler) Reconcile(ctx context.Context, rq ctrl.Request) (ctrl.Result, error) {
	w := workload()
	if err := r.Get(ctx, rq.NamespacedName, w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !w.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, nil
	}
	if err := r.beside(ctx, w); err != nil {
		return ctrl.Result{}, err
	}
	want := strconv.FormatInt(w.GetGeneration(), 10)
	if w.GetAnnotations()[seen] == want {
		return ctrl.Result{}, nil
	}
	before := w.DeepCopy()
	notes := w.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[seen] = want
	w.SetAnnotations(notes)
	return ctrl.Result{}, r.Patch(ctx, w, client.MergeFrom(before))
}

// beside keeps the ConfigMap.
func (r *reconciler) beside(ctx context.Context, w *unstructured.Unstructured) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.GetNamespace(), Name: w.GetName() + "-seen"}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, m, func() error {
		m.Data = map[string]string{"generation": strconv.FormatInt(w.GetGeneration(), 10)}
		return controllerutil.SetControllerReference(w, m, r.scheme)
	})
	return err
}

func run() error {
	ctrl.SetLogger(zap.New())
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	m, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, LeaderElection: false, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	r := &reconciler{Client: m.GetClient(), scheme: scheme}
	if err := ctrl.NewControllerManagedBy(m).Named("seen").For(workload()).Owns(&corev1.ConfigMap{}).Complete(r); err != nil {
		return err
	}
	return m.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "reconciler:", err)
		os.Exit(1)
	}
}
