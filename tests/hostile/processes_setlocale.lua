-- expect: error os.setlocale is not for a recipe that is not trusted
os.setlocale("tr_TR")
